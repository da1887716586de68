#include "tools/workflow/output_path.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/file_writer.h"

namespace partita {
namespace {

// Whether both are one file, which need not be there yet.
bool IsOneFile(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::status(a, error).type();
  if (type == std::filesystem::file_type::regular) return std::filesystem::equivalent(a, b, error);
  if (type != std::filesystem::file_type::not_found) return false;
  const auto place = [&error](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  const std::filesystem::path place_a = place(a), place_b = place(b);
  return !place_a.empty() && place_a == place_b;
}

bool LiesIn(const std::filesystem::path& folder, const std::filesystem::path& file) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
         folder.end();
}

// Whether it is a file in the folder, by its name or by what that links to.
bool IsFileIn(const std::string& folder, const std::string& path) {
  std::error_code error;
  if (path.empty() || !std::filesystem::is_directory(folder, error) ||
      !std::filesystem::is_regular_file(path, error)) {
    return false;
  }
  const std::filesystem::path root = std::filesystem::canonical(folder, error);
  const std::filesystem::path name = std::filesystem::absolute(path, error);
  return LiesIn(root, std::filesystem::canonical(path, error)) ||
         LiesIn(root, std::filesystem::canonical(name.parent_path(), error) / name.filename());
}

bool Replaces(const NamedFile& output, const NamedFile& input) {
  return IsOneFile(output.path, input.path) ||
         (!output.is_default && IsFileIn(input.path, output.path));
}

absl::Status WouldReplace(const NamedFile& output, const NamedFile& other) {
  return UsageError(absl::StrCat(output.name, " '", output.path, "' would replace the file of ",
                                 other.name, ": name another place"));
}

}  // namespace

absl::Status CheckWritable(const std::string& path, absl::string_view flag) {
  if (path.empty()) return absl::OkStatus();
  const absl::Status status = CheckWritableFile(path);
  if (!absl::IsPermissionDenied(status)) return status;
  return WithMessage(status, absl::StrCat(status.message(), ". Try ", flag, " with another place"));
}

absl::Status CheckApart(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    for (const NamedFile& input : inputs) {
      if (Replaces(outputs[k], input)) return WouldReplace(outputs[k], input);
    }
    for (const NamedFile& earlier : outputs.first(k)) {
      if (IsOneFile(outputs[k].path, earlier.path)) return WouldReplace(outputs[k], earlier);
    }
  }
  return absl::OkStatus();
}

}  // namespace partita

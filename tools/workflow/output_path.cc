#include "tools/workflow/output_path.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/file_writer.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

namespace fs = std::filesystem;

// The path without links and dots; empty where the system has no such place. ResourceExhausted where
// it lacks the memory to say.
absl::StatusOr<fs::path> PlaceOf(const fs::path& path) {
  std::error_code error;
  fs::path place = fs::absolute(path, error);
  if (!error) place = fs::weakly_canonical(place, error);
  if (error == std::errc::not_enough_memory) {
    return MemoryError(absl::StrCat("no memory to find the place of '", path.string(), "'"));
  }
  return error ? fs::path() : place;
}

// Whether both are one file, which need not be there yet.
absl::StatusOr<bool> IsOneFile(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  const fs::file_type type = fs::status(a, error).type();
  if (type == fs::file_type::regular) return fs::equivalent(a, b, error);
  if (type != fs::file_type::not_found) return false;
  ASSIGN_OR_RETURN(const fs::path place_a, PlaceOf(a));
  ASSIGN_OR_RETURN(const fs::path place_b, PlaceOf(b));
  return !place_a.empty() && place_a == place_b;
}

bool LiesIn(const fs::path& folder, const fs::path& file) {
  return !folder.empty() &&
         std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
             folder.end();
}

// Whether it is a file in the folder, by its name or by what that links to.
absl::StatusOr<bool> IsFileIn(const std::string& folder, const std::string& path) {
  std::error_code error;
  if (path.empty() || !fs::is_directory(folder, error) || !fs::is_regular_file(path, error)) {
    return false;
  }
  ASSIGN_OR_RETURN(const fs::path root, PlaceOf(folder));
  ASSIGN_OR_RETURN(const fs::path file, PlaceOf(path));
  const fs::path name = fs::absolute(path, error);
  ASSIGN_OR_RETURN(const fs::path parent, PlaceOf(name.parent_path()));
  return LiesIn(root, file) || LiesIn(root, parent / name.filename());
}

absl::StatusOr<bool> Replaces(const NamedFile& output, const NamedFile& input) {
  ASSIGN_OR_RETURN(const bool is_one, IsOneFile(output.path, input.path));
  if (is_one || output.is_default) return is_one;
  return IsFileIn(input.path, output.path);
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
      ASSIGN_OR_RETURN(const bool replaces, Replaces(outputs[k], input));
      if (replaces) return WouldReplace(outputs[k], input);
    }
    for (const NamedFile& earlier : outputs.first(k)) {
      ASSIGN_OR_RETURN(const bool is_one, IsOneFile(outputs[k].path, earlier.path));
      if (is_one) return WouldReplace(outputs[k], earlier);
    }
  }
  return absl::OkStatus();
}

}  // namespace partita

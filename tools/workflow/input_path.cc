#include "tools/workflow/input_path.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/support/known_names.h"

namespace partita {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNames = 1000;

// "; did you mean 'dir/net.onnx'?", of the files beside it; or empty.
std::string NearbyText(const fs::path& path, const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator one(folder, error), end; !error && one != end; one.increment(error)) {
    if (names.size() == kMostNames) break;
    names.push_back((path.parent_path() / one->path().filename()).string());
  }
  return DidYouMean(path.string(), names);
}

}  // namespace

absl::Status CheckThere(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) || error) return absl::OkStatus();
  if (absl::StrContains(path, "://")) {
    return absl::NotFoundError(
        absl::StrCat("'", path, "' is no file of this machine; nothing is fetched from elsewhere"));
  }
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::exists(folder, error)) {
    return absl::NotFoundError(
        absl::StrCat("there is no file '", path, "', and no folder '", folder.string(), "'",
                     path.starts_with("~") ? " (within quotes the shell leaves '~' alone)" : ""));
  }
  return absl::NotFoundError(
      absl::StrCat("there is no file '", path, "'", NearbyText(path, folder)));
}

}  // namespace partita

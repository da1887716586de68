#include "tools/workflow/output_path.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace partita {

absl::Status CheckWritable(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write '", path, "': it is a folder; the name of a file is wanted"));
  }
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat("cannot write '", path, "': there is no folder '",
                                            folder.string(), "'. Make it, or name another place"));
  }
  if (access(folder.c_str(), W_OK) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write '", path, "': nothing may be written into '", folder.string(),
                     "'. Try -o with another place"));
  }
  return absl::OkStatus();
}

}  // namespace partita

#include "tools/workflow/output_path.h"

#include "absl/strings/str_cat.h"
#include "graph/support/file_writer.h"

namespace partita {

absl::Status CheckWritable(const std::string& path, absl::string_view flag) {
  if (path.empty()) return absl::OkStatus();
  const absl::Status status = CheckWritableFile(path);
  if (!absl::IsPermissionDenied(status)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), ". Try ", flag, " with another place"));
}

}  // namespace partita

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "graph/support/temporary.h"

namespace partita {

// Where ranks tell the process that has launched them why their run ends: past mpirun, which
// forwards nothing of what they write while it ends processes itself.
class VerdictLine {
 public:
  // Unavailable where no socket can be made in the folder for temporary files.
  static absl::StatusOr<std::unique_ptr<VerdictLine>> Open();
  ~VerdictLine();
  VerdictLine(const VerdictLine&) = delete;
  VerdictLine& operator=(const VerdictLine&) = delete;

  // The socket's file, for Tell; its owner's alone.
  const std::string& path() const { return path_; }
  // That it lies in, for more that is to go with it.
  const std::string& folder() const { return folder_.path(); }
  // What was told and not yet received; does not wait.
  std::optional<std::string> Receive();

  // False where nobody listens there, as on another host; does not wait. Longer texts than
  // kLongest bytes are cut.
  static bool Tell(const std::string& path, const std::string& text);
  static constexpr size_t kLongest = 4096;

 private:
  VerdictLine(int socket, TemporaryFolder folder, std::string path)
      : socket_(socket), folder_(std::move(folder)), path_(std::move(path)) {}
  const int socket_;
  const TemporaryFolder folder_;
  const std::string path_;
};

}  // namespace partita

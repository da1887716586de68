#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

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
  // What was told and not yet received; does not wait.
  std::optional<std::string> Receive();

  // False where nobody listens there, as on another host; does not wait. Longer texts than
  // kLongest bytes are cut.
  static bool Tell(const std::string& path, const std::string& text);
  static constexpr size_t kLongest = 4096;

 private:
  VerdictLine(int socket, std::string folder, std::string path)
      : socket_(socket), folder_(std::move(folder)), path_(std::move(path)) {}
  const int socket_;
  const std::string folder_, path_;
};

}  // namespace partita

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/tcp/reception.h"
#include "runtime/support/run_key.h"

namespace partita {

// Channel over which ranks report to the process that launched them why their run ends: past
// mpirun, which forwards nothing of what they write while it ends processes itself. A Unix socket
// without a file, for processes of this user that have the run's key. One thread.
class FailureChannel {
 public:
  // Unavailable where no socket can be made.
  static absl::StatusOr<std::unique_ptr<FailureChannel>> Open(const RunKey& key);

  // The socket's name, for Report; no secret.
  const std::string& name() const { return name_; }
  // Text that was sent and not yet received; waits for at most so long if there is none. Longer
  // texts than kLongest bytes are not received.
  std::optional<std::string> Receive(int milliseconds = 0);

  // False where no process listens there, as on another host, or with another key, or does not
  // answer within two seconds. Longer texts than kLongest bytes are cut.
  static bool Report(const std::string& name, const RunKey& key, const std::string& text);
  static constexpr size_t kLongest = 4096;

 private:
  FailureChannel(std::string name, std::unique_ptr<Listener> listener, const RunKey& key);
  const std::string name_;
  Reception reception_;
  std::vector<std::unique_ptr<Connection>> tellers_;
  std::vector<std::string> told_;
};

}  // namespace partita

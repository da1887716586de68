#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "runtime/comm/message_port.h"

namespace partita {

// The first value that checks have found to be NaN or infinite, in an order that all
// processes of a run share.
class NotFinite {
 public:
  // Adds a finding. Any thread.
  void Add(int64_t place, std::string what);
  // OutOfRange with what comes first of all that this process, or any that `port` (may be null)
  // connects, has added since the last call; the same on each. Collective where there is a port.
  absl::Status Take(MessagePort* port);

 private:
  std::mutex mutex_;
  int64_t place_ = -1;  // nothing found yet
  std::string what_;
};

}  // namespace partita

#pragma once

#include <memory>

#include "absl/status/status.h"
#include "runtime/comm/message_port.h"
#include "runtime/support/run_key.h"

namespace partita {

// Puts a port into `port`'s place whose messages between ranks of one host go through memory that
// they share, and all others through the former one. What arrives to be combined is combined as it
// lies there. Collective: all ranks of the port call it, with the run's key. Leaves the port where
// no two ranks are on one host, or they cannot share memory, or an error is returned.
absl::Status ShareMemory(std::unique_ptr<MessagePort>& port, const RunKey& key);

}  // namespace partita

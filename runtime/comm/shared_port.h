#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/comm/message_port.h"

namespace partita {

// A port whose messages between ranks of one host go through memory that they share, and all others
// through `outer`. What arrives to be combined is combined as it lies there. Collective: all ranks
// of `outer` call it. Returns `outer` itself where no two ranks are on one host, or they cannot
// share memory.
absl::StatusOr<std::unique_ptr<MessagePort>> ShareMemory(std::unique_ptr<MessagePort> outer);

}  // namespace partita

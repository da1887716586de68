#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/comm/message_port.h"

namespace partita {

// The processes that MPI's launcher has started, as ranks of MPI_COMM_WORLD. Once in a process, and
// not after it was closed: MPI starts and ends once. Closing waits for all ranks; after an Abort it
// ends all processes of the run instead, as others may wait for messages that never come.
// Unavailable where this process was not started by a launcher, or where MPI cannot
// start or not be used by one thread at a time.
absl::StatusOr<std::unique_ptr<MessagePort>> OpenMpiPort();

}  // namespace partita

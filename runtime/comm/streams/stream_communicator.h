#pragma once

#include <memory>

#include "runtime/comm/communicator.h"

namespace partita {

// Devices of one process: collectives and transfers are moves between device buffers, and events
// between streams; the host only enqueues and nothing waits for it. This is how several virtual
// devices share one GPU. Devices that do not reach each other's memory, as CPU cores and a GPU,
// exchange through pinned host memory and signals there. It runs on every backend and on any mix.
// Schedules are followed round by round, and sums fold in ascending order of ranks, as with all
// communicators.
std::unique_ptr<Communicator> MakeStreamCommunicator(int devices);

}  // namespace partita

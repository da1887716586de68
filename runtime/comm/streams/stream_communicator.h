#pragma once

#include <memory>

#include "runtime/comm/communicator.h"

namespace partita {

// Devices of one process whose streams read each other's memory: collectives and transfers are
// moves between device buffers, and events between streams; the host only enqueues and nothing
// waits for it. This is how several virtual devices share one GPU, and it runs on every backend.
// Schedules are followed round by round, and sums fold in ascending order of ranks, as with all
// communicators.
std::unique_ptr<Communicator> MakeStreamCommunicator(int devices);

}  // namespace partita

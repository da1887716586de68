#pragma once

#include <memory>

#include "runtime/comm/communicator.h"

namespace partita {

// Lets a communicator that works in host memory serve devices whose memory the host does not reach:
// what a device sends is copied to pinned host memory of its own, and what it receives from there,
// on the stream that the task is enqueued on. Devices in host memory go to `inner` as they are.
std::unique_ptr<Communicator> MakeStagedCommunicator(std::unique_ptr<Communicator> inner);

}  // namespace partita

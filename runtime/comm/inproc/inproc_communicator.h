#pragma once

#include <memory>

#include "runtime/comm/communicator.h"

namespace partita {

// Devices are threads of this process with memory in one address space. A rank pulls what it needs
// from its peers' buffers, round by round of the collective's schedule; sums fold in ascending
// order of ranks, so every rank gets the same bits. `devices`: how many the program has.
std::unique_ptr<Communicator> MakeInprocCommunicator(int devices);

}  // namespace partita

#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/comm/message_port.h"

namespace partita {

// Devices are processes: device d of the program is rank d of the port, and this process is its own
// device only. Collectives run round by round of their schedules as messages between hosts; sums
// fold in ascending order of ranks, so every rank gets the bits that devices in one process get.
// BytesReceived knows this process's device only; the others' entries are 0. `port` outlives it.
std::unique_ptr<Communicator> MakeMessageCommunicator(MessagePort& port);

}  // namespace partita

#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/comm/message_port.h"

namespace partita {

// Devices are processes: device d of the program is rank d of the port, and this process is its own
// device only. Where the port's ranks share memory, and the device's memory can be shared, what
// goes on between ranks of one host is done in place: they meet, each does its share on all ranks'
// buffers, and they part. All else runs round by round of the schedules as messages. Either way
// sums are those of the schedule, so every rank gets the bits that devices in one process get.
// BytesReceived counts the schedule's messages, and knows this process's device only; the others'
// entries are 0. `port` outlives it.
std::unique_ptr<Communicator> MakeMessageCommunicator(MessagePort& port);

}  // namespace partita

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/message_port.h"

namespace partita {

struct NcclSetup {
  int devices = 1;                      // number of devices of the program
  MessagePort* port = nullptr;          // port as in CommunicatorSetup; outlives the communicator
  std::string soname = "libnccl.so.2";  // opened at run time
  double connect_seconds = 60;          // time limit for the ranks of a group to find each other
};

// Devices are ranks of NCCL communicators, one communicator for each list of devices that some task
// names, made in Connect. NCCL chooses how a collective is done, whatever algorithm the task names:
// BytesReceived counts what the task's own algorithm would deliver, as the task graph does, since
// NCCL does not report what it moves. A task's calls go onto the stream that it is enqueued on, in
// one group. Sums in floating point
// are equal on all ranks, but their order of terms is NCCL's. All devices may be in this process,
// or device d in the process that is rank d of the port. Unavailable if the library cannot be
// opened, see OpenNcclLibrary.
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(const NcclSetup& setup);

}  // namespace partita

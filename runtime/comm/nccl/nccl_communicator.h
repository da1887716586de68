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
// one group. Sums in floating point are equal on all ranks, but their order of terms is NCCL's. All
// devices may be in this process, or device d in the process that is rank d of the port.
// Unavailable if the library cannot be opened, see OpenNcclLibrary.
//
// All devices meet once, in one communicator that nothing is moved by; the others are split from
// it, several at once where they share no device (SplitRoundsOf), and share its resources: a
// device's tasks all run on one stream, one after another, so that none waits for another's
// resources. The first does not block its caller, for NCCL allows an abort of such a one at any
// time, and a limit of the time in which ranks find each other. What is split from it blocks, for a
// call of one that does not is a thread of NCCL's and looks for its end, at every step. NCCL allows
// no abort of a communicator that a thread is in a call of; but as they share the flag that aborts
// the first, in which no call is under way then, its abort ends theirs, and they are freed after.
//
// A step can be recorded, each device by itself (CUDA graphs): a call that is made while its stream
// is captured becomes part of the graph. NCCL demands that all ranks of a call record it together,
// or none, and that all launch what they recorded together, each device by a thread of its own; and
// it frees no communicator whose calls are part of a graph that is still there.
//
// A library before 2.18 cannot split: there each communicator is connected by an id of its own and
// does not block, a thread that enqueues looks for its calls' end, and steps are not recorded. NCCL's
// own variables that change this are refused (UsageError): NCCL_COMM_SPLIT_SHARE_RESOURCES=0, with
// which an abort would not end recorded steps, and NCCL_COMM_BLOCKING=1.
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(const NcclSetup& setup);

}  // namespace partita

#pragma once

#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/message_port.h"

namespace partita {

// Parameters of communicators.
struct CommunicatorSetup {
  int devices = 1;  // number of devices of the program
  MessagePort* port =
      nullptr;  // port to the other processes, for communicators between processes; outlives them
  std::string nccl_library = "libnccl.so.2";  // path or name of the library that nccl opens
  double connect_seconds = 60;                // nccl: for the devices of a group to find each other
};

struct CommunicatorRow {
  const char* name;
  // Null: not built into this program.
  absl::StatusOr<std::unique_ptr<Communicator>> (*make)(const CommunicatorSetup& setup);
  const char* description;
  const char* missing;  // reason if it is not built
};

// THE table of communicators.
std::span<const CommunicatorRow> Communicators();

// NotFound lists the valid names; Unavailable where this program or this machine does not have what
// the communicator is made of, or one between processes has no port; InvalidArgument where the port
// has not one rank for each device.
absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const std::string& name,
                                                               const CommunicatorSetup& setup);

}  // namespace partita

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/comm/message_port.h"

namespace partita {

// Where the processes of a run meet, as torchrun and launchers like it say it.
struct TcpMeeting {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1";  // of rank 0, which listens there; a name or an IPv4 address
  int port = 29500;
  double seconds = 60;  // to wait for the others
};

// Processes connected pair by pair over TCP. Collective: every rank calls it. Unavailable, with who
// is missing, where they do not meet.
absl::StatusOr<std::unique_ptr<MessagePort>> OpenTcpPort(const TcpMeeting& meeting);

}  // namespace partita

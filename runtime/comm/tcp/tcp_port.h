#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/message_port.h"
#include "runtime/comm/tcp/tcp_meeting.h"
#include "runtime/support/run_key.h"

namespace partita {

// Messages between ranks, and the key that all of them have.
struct KeyedPort {
  std::unique_ptr<MessagePort> port;
  RunKey key;
};

// Processes connected pair by pair over sockets, once they have met. Collective: every rank calls
// it. Errors as MeetRanks.
absl::StatusOr<KeyedPort> OpenTcpPort(const TcpMeeting& meeting);

// The same once they have met: takes over the non-blocking sockets, by rank; -1 for its own.
std::unique_ptr<MessagePort> MakeTcpPort(int rank, std::vector<int> sockets);

}  // namespace partita

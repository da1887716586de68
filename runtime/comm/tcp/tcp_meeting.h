#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/tcp/connection.h"
#include "runtime/support/run_key.h"

namespace partita {

// Meeting place of the processes of a run, as torchrun and similar launchers give it.
struct TcpMeeting {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1";  // of rank 0, which listens there; a name or an IPv4 address
  int port = 29500;
  double seconds = 60;  // time limit of the whole meeting
  // Ranks of several hosts need one. Without, all ranks are of this host and of this user: they
  // meet at a Unix socket that is named after `port`, whatever `address` says, and talk over
  // loopback.
  std::optional<RunKey> key = {};
};

struct MetRanks {
  std::vector<std::unique_ptr<Connection>> connections;  // indexed by rank; null: its own
  RunKey key;                                            // the meeting's, or one that rank 0 made
};

// Every rank connects to every other one; no rank listens any more when it returns. Collective:
// every rank calls it. UsageError where the ranks do not agree about how many they are, or two are
// the same. Unavailable, naming the missing ranks and the refused callers, where they do not meet
// in time: no stranger or silent rank holds it up for longer.
absl::StatusOr<MetRanks> MeetRanks(const TcpMeeting& meeting);

// Advice for people where a run needs a key and has none.
constexpr char kHowToGiveAKey[] =
    "Ranks of several hosts need a key, the same on all: PARTITA_KEY=\"$(openssl rand -hex 32)\", "
    "or --key_file FILE";

// The Unix socket where ranks without a key meet rank 0.
std::string MeetingNameOf(int port);

}  // namespace partita

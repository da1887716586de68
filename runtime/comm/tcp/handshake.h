#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/comm/tcp/connection.h"
#include "runtime/support/run_key.h"

namespace partita {

// Handshake at the beginning of every connection of a run: both ends prove that they have the run's
// key without sending it. Four messages:
//   hello      caller:    a mark, the Call, 32 random bytes
//   challenge  listener:  32 random bytes; MAC of "listener", the hello and these bytes
//   proof      caller:    MAC of "caller" and the same
//   answer     listener:  MAC of "answer", the same and a text; the text: empty, or why it refuses
// MACs are HMAC-SHA256 with the run's key. A recorded message is of no use later, since both ends
// add random bytes, nor towards another rank, for another purpose or in the other direction, since
// these are in every MAC. What follows on the connection is neither encrypted nor signed.

// The purpose of a connection.
enum class Purpose : uint8_t {
  kMeeting = 1,  // meeting of the ranks, with rank 0
  kMessages,     // messages between two ranks
  kWatchdog,     // watchdog of a rank, with rank 0's
  kVerdict,      // verdict of a rank, to the process that launched it
  kMemory,       // memory that two ranks of a host share
};

// The terms that both ends have to mean alike. Numbers are of ranks.
struct Call {
  Purpose purpose = Purpose::kMeeting;
  int caller = 0, listener = 0;
  int ranks = 1;  // number of ranks of the run
};

// Longest message of a handshake but the answer, and longest text of that.
constexpr size_t kHandshakeBytes = 64;
constexpr size_t kMostRefusal = 512;

// The caller's side, on a new connection; waits for at most so long. PermissionDenied: the other
// end has another key. UsageError: it refuses, and says why. Unavailable: it is gone, silent, or
// has another protocol.
absl::Status CallOn(Connection& connection, const RunKey& key, const Call& call, double seconds);

// The listener's side of one connection; never waits.
class Handshake {
 public:
  enum class State { kOpen, kProved, kOtherKey, kBroken };

  // `own`: what calls it takes; its caller does not matter. The key outlives it.
  Handshake(std::unique_ptr<Connection> connection, const RunKey& key, const Call& own);

  // Takes what has arrived. Once kProved the caller has the key, and waits for Answer.
  State Advance();
  const Call& call() const { return call_; }  // call of the caller, once kProved
  // Ends it: lets the caller in if `refusal` is empty (then the connection is the result), or tells
  // it that and closes.
  std::unique_ptr<Connection> Answer(const std::string& refusal);
  int socket() const { return connection_->socket(); }

 private:
  State TakeHello(const std::string& message);
  State TakeProof(const std::string& message);

  std::unique_ptr<Connection> connection_;
  const RunKey& key_;
  const Call own_;
  Call call_;
  std::string transcript_;  // the hello and the challenge's random bytes; empty before
};

// Connects to a rank at one of these addresses and calls it there. Goes on until `seconds` have
// passed, or a listener refuses, or only those with another key have answered for a while. Errors
// as CallOn's, with the addresses.
absl::StatusOr<std::unique_ptr<Connection>> CallRank(const std::vector<std::string>& addresses,
                                                     int port, const RunKey& key, const Call& call,
                                                     double seconds);

// The same at a Listener::OpenUnix. Without a key, takes the one that the listener gives
// (Reception::Options::gives_key) and keeps it in `key`.
absl::StatusOr<std::unique_ptr<Connection>> CallWithinHost(const std::string& name,
                                                           std::optional<RunKey>& key,
                                                           const Call& call, double seconds);

}  // namespace partita

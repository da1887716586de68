#include "runtime/comm/tcp/handshake.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/clock.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "runtime/support/hmac.h"

namespace partita {
namespace {

constexpr absl::string_view kMark = "partita1";
constexpr size_t kNonce = 32;
constexpr size_t kHello = kMark.size() + 1 + 3 * sizeof(uint32_t) + kNonce;
static_assert(kHello <= kHandshakeBytes && kNonce + kDigestBytes <= kHandshakeBytes);

constexpr double kAttemptSeconds = 5;    // for a connection and its handshake
constexpr double kConnectSeconds = 0.5;  // for a connection to one address
constexpr double kOtherKeySeconds = 2;   // a while in which only those with other keys answer
constexpr int64_t kRest = 50'000'000;    // ns, before it is tried again

std::string HelloOf(const Call& call) {
  std::string text(kMark);
  text += static_cast<char>(call.purpose);
  for (const int number : {call.caller, call.listener, call.ranks}) {
    const auto value = static_cast<uint32_t>(number);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return text + RandomBytes(kNonce);
}

// Nothing if it is none.
std::optional<Call> CallIn(const std::string& hello) {
  if (hello.size() != kHello || !absl::StartsWith(hello, kMark)) return std::nullopt;
  const auto purpose = static_cast<uint8_t>(hello[kMark.size()]);
  if (purpose < static_cast<uint8_t>(Purpose::kMeeting) ||
      purpose > static_cast<uint8_t>(Purpose::kMemory)) {
    return std::nullopt;
  }
  uint32_t numbers[3];
  std::memcpy(numbers, hello.data() + kMark.size() + 1, sizeof numbers);
  if (std::any_of(std::begin(numbers), std::end(numbers),
                  [](uint32_t n) { return n > INT32_MAX; })) {
    return std::nullopt;
  }
  return Call{static_cast<Purpose>(purpose), static_cast<int>(numbers[0]),
              static_cast<int>(numbers[1]), static_cast<int>(numbers[2])};
}

// `transcript`: the hello and the challenge's random bytes, which have fixed sizes.
std::string MacOf(const RunKey& key, absl::string_view who, absl::string_view transcript,
                  absl::string_view text = "") {
  return key.Mac(absl::StrCat("partita ", who, "\n", transcript, text));
}

double SecondsUntil(int64_t end) { return static_cast<double>(end - SteadyNow()) / 1e9; }

// Attempts until one succeeds, or it makes no sense to go on.
template <class Attempt>
absl::StatusOr<std::unique_ptr<Connection>> TryUntil(int64_t end, Attempt&& attempt) {
  int64_t other_key = 0;  // since when only those with another one have answered
  for (;;) {
    auto connection = attempt(std::min(kAttemptSeconds, SecondsUntil(end)));
    if (connection.ok() || IsUsageError(connection.status())) return connection;
    const int64_t now = SteadyNow();
    if (!absl::IsPermissionDenied(connection.status())) {
      other_key = 0;
    } else if (other_key == 0) {
      other_key = now;
    }
    const bool others_only =
        other_key != 0 && static_cast<double>(now - other_key) > kOtherKeySeconds * 1e9;
    if (others_only || now > end) return connection;
    usleep(static_cast<useconds_t>(std::min(kRest, end - now) / 1'000));
  }
}

absl::Status OtherKey() {
  return absl::PermissionDeniedError("who answers has another key than this rank");
}

}  // namespace

absl::Status CallOn(Connection& connection, const RunKey& key, const Call& call, double seconds) {
  const int64_t end = SteadyNow() + static_cast<int64_t>(seconds * 1e9);
  connection.Allow(kDigestBytes + kMostRefusal);
  const std::string hello = HelloOf(call);
  connection.Send(hello);
  ASSIGN_OR_RETURN(const std::string challenge, connection.ReceiveOne(SecondsUntil(end)));
  if (challenge.size() != kNonce + kDigestBytes) {
    return absl::UnavailableError("who answers is no rank");
  }
  const absl::string_view challenged(challenge);
  const std::string transcript = absl::StrCat(hello, challenged.substr(0, kNonce));
  if (!SameSecret(challenged.substr(kNonce), MacOf(key, "listener", transcript))) {
    connection.Send("other key");  // no proof; the listener counts it as one of another key
    return OtherKey();
  }
  connection.Send(MacOf(key, "caller", transcript));
  ASSIGN_OR_RETURN(const std::string answer, connection.ReceiveOne(SecondsUntil(end)));
  if (answer.size() < kDigestBytes) return absl::UnavailableError("who answers is no rank");
  const absl::string_view refusal = absl::string_view(answer).substr(kDigestBytes);
  if (!SameSecret(absl::string_view(answer).substr(0, kDigestBytes),
                  MacOf(key, "answer", transcript, refusal))) {
    return OtherKey();
  }
  connection.Allow(Connection::kMostBytes);
  return refusal.empty() ? absl::OkStatus() : UsageError(refusal);
}

Handshake::Handshake(std::unique_ptr<Connection> connection, const RunKey& key, const Call& own)
    : connection_(std::move(connection)), key_(key), own_(own) {}

Handshake::State Handshake::Advance() {
  const auto messages = connection_->Receive();
  if (!messages.ok() || messages->size() > 1) return State::kBroken;
  if (messages->empty()) return State::kOpen;
  return transcript_.empty() ? TakeHello((*messages)[0]) : TakeProof((*messages)[0]);
}

Handshake::State Handshake::TakeHello(const std::string& message) {
  const auto call = CallIn(message);
  if (!call.has_value() || call->purpose != own_.purpose || call->listener != own_.listener) {
    return State::kBroken;
  }
  call_ = *call;
  const std::string nonce = RandomBytes(kNonce);
  transcript_ = message + nonce;
  connection_->Send(nonce + MacOf(key_, "listener", transcript_));
  return State::kOpen;
}

Handshake::State Handshake::TakeProof(const std::string& message) {
  return SameSecret(message, MacOf(key_, "caller", transcript_)) ? State::kProved
                                                                 : State::kOtherKey;
}

std::unique_ptr<Connection> Handshake::Answer(const std::string& refusal) {
  const std::string text = refusal.substr(0, kMostRefusal);
  connection_->Send(MacOf(key_, "answer", transcript_, text) + text);
  if (!text.empty()) return nullptr;
  connection_->Allow(Connection::kMostBytes);
  return std::move(connection_);
}

absl::StatusOr<std::unique_ptr<Connection>> CallRank(const std::vector<std::string>& addresses,
                                                     int port, const RunKey& key, const Call& call,
                                                     double seconds) {
  const int64_t end = SteadyNow() + static_cast<int64_t>(seconds * 1e9);
  const auto attempt = [&](double most) -> absl::StatusOr<std::unique_ptr<Connection>> {
    absl::Status worst = absl::UnavailableError("it has no address");
    for (const std::string& address : addresses) {
      auto connection = Connection::Open(address, port, std::min(most, kConnectSeconds));
      absl::Status status = connection.status();
      if (status.ok()) status = CallOn(**connection, key, call, most);
      if (status.ok()) return connection;
      if (IsUsageError(status)) return status;
      if (!absl::IsPermissionDenied(worst)) worst = status;
    }
    return worst;
  };
  auto connection = TryUntil(end, attempt);
  if (connection.ok() || IsUsageError(connection.status())) return connection;
  return WithMessage(
      connection.status(),
      absl::StrCat("rank ", call.listener, " was not reached at port ", port, " of ",
                   absl::StrJoin(addresses, ", "), ": ", connection.status().message()));
}

absl::StatusOr<std::unique_ptr<Connection>> CallWithinHost(const std::string& name,
                                                           std::optional<RunKey>& key,
                                                           const Call& call, double seconds) {
  const int64_t end = SteadyNow() + static_cast<int64_t>(seconds * 1e9);
  const bool is_given = !key.has_value();
  return TryUntil(end, [&](double most) -> absl::StatusOr<std::unique_ptr<Connection>> {
    ASSIGN_OR_RETURN(auto connection, Connection::OpenUnix(name));
    if (is_given) {
      connection->Allow(RunKey::kBytes);
      ASSIGN_OR_RETURN(std::string given, connection->ReceiveOne(most));
      auto read = RunKey::FromBytes(given);
      Wipe(given);
      if (!read.ok()) return absl::UnavailableError("who answers is no rank");
      key = *std::move(read);
    }
    RETURN_IF_ERROR(CallOn(*connection, *key, call, most));
    return connection;
  });
}

}  // namespace partita

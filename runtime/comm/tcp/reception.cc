#include "runtime/comm/tcp/reception.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/support/clock.h"

namespace partita {
namespace {

constexpr int kRetryWhenFull = 10;  // ms, where there is no room

}  // namespace

Reception::Reception(std::unique_ptr<Listener> listener, RunKey key, Options options)
    : listener_(std::move(listener)), key_(std::move(key)), options_(std::move(options)) {}

std::vector<Reception::Guest> Reception::Receive(int milliseconds) {
  std::vector<int> sockets;
  for (const Stranger& stranger : strangers_) sockets.push_back(stranger.handshake->socket());
  if (HasRoom(SteadyNow())) {
    sockets.push_back(listener_->socket());
  } else {
    milliseconds = std::min(milliseconds, kRetryWhenFull);
  }
  WaitToRead(sockets, milliseconds);
  const int64_t now = SteadyNow();
  TakeIn(now);
  std::vector<Guest> guests;
  for (Stranger& stranger : strangers_) {
    if (auto connection = Hear(stranger, now)) {
      guests.push_back({stranger.handshake->call().caller, std::move(connection)});
      stranger.handshake = nullptr;
    }
  }
  std::erase_if(strangers_, [](const Stranger& s) { return s.handshake == nullptr; });
  return guests;
}

bool Reception::HasRoom(int64_t now) const {
  return strangers_.size() < kMostStrangers ||
         static_cast<double>(now - strangers_.front().since) > kUndisturbedSeconds * 1e9;
}

void Reception::TakeIn(int64_t now) {
  while (HasRoom(now)) {
    auto connection = listener_->Accept(kHandshakeBytes);
    if (connection == nullptr) return;
    if (options_.gives_key) connection->Send(key_.bytes());
    if (strangers_.size() >= kMostStrangers) {
      strangers_.erase(strangers_.begin());
      ++others_;
    }
    strangers_.push_back(
        {std::make_unique<Handshake>(std::move(connection), key_, options_.own), now});
  }
}

// The connection of an accepted caller. Others are closed.
std::unique_ptr<Connection> Reception::Hear(Stranger& stranger, int64_t now) {
  const Handshake::State state = stranger.handshake->Advance();
  if (state == Handshake::State::kProved) {
    auto connection = stranger.handshake->Answer(RefusalOf(stranger.handshake->call()));
    if (connection == nullptr) stranger.handshake = nullptr;
    return connection;
  }
  const bool is_late = static_cast<double>(now - stranger.since) > kStrangerSeconds * 1e9;
  if (state == Handshake::State::kOpen && !is_late) return nullptr;
  (state == Handshake::State::kOtherKey ? other_keys_ : others_) += 1;
  stranger.handshake = nullptr;
  return nullptr;
}

std::string Reception::RefusalOf(const Call& call) const {
  const Call& own = options_.own;
  if (call.ranks != own.ranks) {
    return absl::StrCat("rank ", call.caller, " is one of ", call.ranks, " ranks, rank ",
                        own.listener, " one of ", own.ranks, "; wanted: the same number on all");
  }
  if (call.caller >= call.ranks) return absl::StrCat("there is no rank ", call.caller);
  return options_.refusal ? options_.refusal(call.caller) : "";
}

std::string Reception::TurnedAway() const {
  std::string text;
  if (other_keys_ > 0) absl::StrAppend(&text, "; ", other_keys_, " with another key turned away");
  if (others_ > 0) absl::StrAppend(&text, "; ", others_, " that were no ranks turned away");
  return text;
}

}  // namespace partita

#include "runtime/launch/failure_channel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/support/hmac.h"

namespace partita {
namespace {

constexpr double kTellSeconds = 2;
constexpr size_t kNameBytes = 8;  // random ones of a name
constexpr size_t kMostTellers = 16;
constexpr Call kCall = {.purpose = Purpose::kVerdict};

}  // namespace

FailureChannel::FailureChannel(std::string name, std::unique_ptr<Listener> listener,
                               const RunKey& key)
    : name_(std::move(name)), reception_(std::move(listener), key, {.own = kCall}) {}

absl::StatusOr<std::unique_ptr<FailureChannel>> FailureChannel::Open(const RunKey& key) {
  const std::string name =
      absl::StrCat("partita-verdict-", absl::BytesToHexString(RandomBytes(kNameBytes)));
  ASSIGN_OR_RETURN(auto listener, Listener::OpenUnix(name));
  return std::unique_ptr<FailureChannel>(new FailureChannel(name, std::move(listener), key));
}

std::optional<std::string> FailureChannel::Receive(int milliseconds) {
  for (auto& guest : reception_.Receive(told_.empty() ? milliseconds : 0)) {
    guest.connection->Allow(kLongest);
    if (tellers_.size() < kMostTellers) tellers_.push_back(std::move(guest.connection));
  }
  for (auto& teller : tellers_) {
    const auto messages = teller->Receive();
    if (messages.ok()) {
      told_.insert(told_.end(), messages->begin(), messages->end());
    } else {
      teller = nullptr;
    }
  }
  std::erase(tellers_, nullptr);
  if (told_.empty()) return std::nullopt;
  std::string first = std::move(told_.front());
  told_.erase(told_.begin());
  return first;
}

bool FailureChannel::Report(const std::string& name, const RunKey& key, const std::string& text) {
  if (name.empty() || absl::IsNotFound(Connection::OpenUnix(name).status())) return false;
  std::optional<RunKey> own = key;
  const auto connection = CallWithinHost(name, own, kCall, kTellSeconds);
  if (!connection.ok()) return false;
  (*connection)->Send(text.substr(0, kLongest));
  return (*connection)->Drain(kTellSeconds).ok();
}

}  // namespace partita

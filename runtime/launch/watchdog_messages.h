#pragma once

#include <optional>
#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "runtime/launch/failure_detector.h"

namespace partita {

// Messages between watchdogs, as text: "beat STATE COMPLETED STARVED", "bye", "fail CODE
// REASON" to rank 0; "alive", "over" and "verdict RANK CODE COMMON REASON" from it.
struct ByeMessage {};
struct AliveMessage {};
struct OverMessage {};  // all ranks have left
struct FailMessage {
  int code = kRankFailed;
  std::string reason;
};
using WatchdogMessage =
    std::variant<RankProgress, ByeMessage, FailMessage, AliveMessage, OverMessage, Verdict>;

// Reasons longer than kLongestReason bytes are cut.
constexpr size_t kLongestReason = 4096;
std::string TextOf(const WatchdogMessage& message);

// Parses a text; nullopt if it is none of them in a run of so many ranks: another rank, an exit
// code that none ends in, a number below zero.
std::optional<WatchdogMessage> MessageOf(absl::string_view text, int ranks);

}  // namespace partita

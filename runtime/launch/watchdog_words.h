#pragma once

#include <optional>
#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "runtime/launch/failure_detector.h"

namespace partita {

// Words between watchdogs, as text: "beat DOING COMPLETED STARVED", "bye", "fail CODE
// REASON" to rank 0; "alive", "over" and "verdict RANK CODE COMMON REASON" from it.
struct ByeWord {};
struct AliveWord {};
struct OverWord {};  // all ranks have left
struct FailWord {
  int code = kRankFailed;
  std::string reason;
};
using WatchdogWord = std::variant<RankProgress, ByeWord, FailWord, AliveWord, OverWord, Verdict>;

// Reasons longer than kLongestReason bytes are cut.
constexpr size_t kLongestReason = 4096;
std::string TextOf(const WatchdogWord& word);

// Parses a text; nullopt if it is none of them in a run of so many ranks: another rank, an exit
// code that none ends in, a number below zero.
std::optional<WatchdogWord> WordOf(absl::string_view text, int ranks);

}  // namespace partita

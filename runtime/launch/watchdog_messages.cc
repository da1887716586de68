#include "runtime/launch/watchdog_messages.h"

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace partita {
namespace {

constexpr int kMostCode = 255;

struct Writer {
  std::string operator()(const RankProgress& p) const {
    return absl::StrCat("beat ", static_cast<int>(p.state), " ", p.completed, " ", p.starved);
  }
  std::string operator()(ByeMessage) const { return "bye"; }
  std::string operator()(const FailMessage& f) const {
    return absl::StrCat("fail ", f.code, " ", f.reason.substr(0, kLongestReason));
  }
  std::string operator()(AliveMessage) const { return "alive"; }
  std::string operator()(OverMessage) const { return "over"; }
  std::string operator()(const Verdict& v) const {
    return absl::StrCat("verdict ", v.rank, " ", v.code, " ", v.common ? 1 : 0, " ",
                        v.reason.substr(0, kLongestReason));
  }
};

// The word, if it is a number from 0 to `most`.
std::optional<int64_t> NumberIn(absl::string_view word, int64_t most) {
  int64_t value = -1;
  if (!absl::SimpleAtoi(word, &value) || value < 0 || value > most) return std::nullopt;
  return value;
}

// `parts`: the first `count` words, and the rest; empty if there are fewer.
std::vector<absl::string_view> Split(absl::string_view text, int count) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(' ', count));
  return static_cast<int>(parts.size()) == count + 1 ? parts : std::vector<absl::string_view>();
}

std::optional<WatchdogMessage> ReadBeat(absl::string_view text) {
  const auto parts = Split(text, 3);
  if (parts.empty()) return std::nullopt;
  const auto state = NumberIn(parts[1], static_cast<int64_t>(RankState::kWaiting));
  const auto completed = NumberIn(parts[2], INT64_MAX), starved = NumberIn(parts[3], INT64_MAX);
  if (!state || !completed || !starved) return std::nullopt;
  return RankProgress{static_cast<RankState>(*state), *completed, *starved};
}

std::optional<WatchdogMessage> ReadFail(absl::string_view text) {
  const auto parts = Split(text, 2);
  if (parts.empty()) return std::nullopt;
  const auto code = NumberIn(parts[1], kMostCode);
  if (!code || *code == 0 || parts[2].size() > kLongestReason) return std::nullopt;
  return FailMessage{static_cast<int>(*code), std::string(parts[2])};
}

std::optional<WatchdogMessage> ReadVerdict(absl::string_view text, int ranks) {
  const auto parts = Split(text, 4);
  if (parts.empty()) return std::nullopt;
  const auto rank = NumberIn(parts[1], ranks - 1), code = NumberIn(parts[2], kMostCode),
             common = NumberIn(parts[3], 1);
  if (!rank || !code || !common || parts[4].size() > kLongestReason) return std::nullopt;
  return Verdict{static_cast<int>(*rank), static_cast<int>(*code), std::string(parts[4]),
                 *common == 1};
}

}  // namespace

std::string TextOf(const WatchdogMessage& message) { return std::visit(Writer(), message); }

std::optional<WatchdogMessage> MessageOf(absl::string_view text, int ranks) {
  const absl::string_view kind = text.substr(0, text.find(' '));
  if (text == "bye") return ByeMessage();
  if (text == "alive") return AliveMessage();
  if (text == "over") return OverMessage();
  if (kind == "beat") return ReadBeat(text);
  if (kind == "fail") return ReadFail(text);
  if (kind == "verdict") return ReadVerdict(text, ranks);
  return std::nullopt;
}

}  // namespace partita

#include "graph/collective/symbolic_check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

// In place: the range [0, total) is cut at every offset that a block or step begins or ends at;
// what lies between two cuts is a cell. A cell of a rank holds a Content: how many times the
// contribution of each rank is in it, and whether anything undefined is. All-to-all never reads
// what it wrote, so there each cell of a receive buffer is compared with the steps that write it.

namespace partita {
namespace {

absl::Status Fault(const std::string& message) {
  return absl::InternalError(absl::StrCat("collective schedule: ", message));
}

std::string Text(const ElementRange& block) {
  return absl::StrCat("elements [", block.offset, ", ", block.end(), ")");
}

bool Overlap(const ElementRange& a, const ElementRange& b) {
  return a.offset < b.end() && b.offset < a.end();
}

// ---- Each round by itself.

absl::Status CheckStep(const Collective& c, const CollectiveStep& step) {
  const std::string what = absl::StrCat("step from rank ", step.from, " to rank ", step.to);
  const auto is_rank = [&](int rank) { return 0 <= rank && rank < c.ranks; };
  if (!is_rank(step.from) || !is_rank(step.to)) {
    return Fault(absl::StrCat(what, ", but there are ", c.ranks, " ranks"));
  }
  if (step.count <= 0) return Fault(absl::StrCat(what, " moves ", step.count, " elements"));
  const auto in_bounds = [&](const ElementRange& block, int64_t size) {
    return block.offset >= 0 && block.offset <= size && block.count <= size - block.offset;
  };
  if (!in_bounds(step.source(), SendElements(c, step.from))) {
    return Fault(absl::StrCat(what, " reads ", Text(step.source()), " of the ",
                              SendElements(c, step.from), " of rank ", step.from));
  }
  if (!in_bounds(step.destination(), ReceiveElements(c, step.to))) {
    return Fault(absl::StrCat(what, " writes ", Text(step.destination()), " of the ",
                              ReceiveElements(c, step.to), " of rank ", step.to));
  }
  const bool all_to_all = c.kind == CollectiveKind::kAllToAll;
  if (!all_to_all && step.source_offset != step.destination_offset) {
    return Fault(absl::StrCat(what, " moves ", Text(step.source()), " to ",
                              Text(step.destination()), "; in place they stay where they are"));
  }
  if (!all_to_all && step.from == step.to) {
    return Fault(absl::StrCat(what, ": ", Text(step.source()), " sent to itself"));
  }
  if (step.action == StepAction::kReduce && (all_to_all || c.kind == CollectiveKind::kAllGather)) {
    return Fault(absl::StrCat(what, " reduces in ", Name(c.kind)));
  }
  return absl::OkStatus();
}

// `receives` is sorted by (destination offset, from).
absl::Status CheckWrites(const std::vector<CollectiveStep>& receives) {
  const CollectiveStep* widest = nullptr;  // of those so far, the one that ends last
  for (const CollectiveStep& step : receives) {
    if (widest != nullptr && Overlap(widest->destination(), step.destination())) {
      const std::string where = absl::StrCat("rank ", step.to, ", ", Text(step.destination()));
      if (widest->from == step.from) {
        return Fault(absl::StrCat(where, ": rank ", step.from, " delivers them 2 times"));
      }
      const bool one_sum = widest->action == StepAction::kReduce &&
                           step.action == StepAction::kReduce &&
                           widest->destination() == step.destination();
      if (!one_sum) {
        return Fault(absl::StrCat(where, ": written by rank ", widest->from, " and by rank ",
                                  step.from, " in the same round"));
      }
    }
    if (widest == nullptr || widest->destination().end() <= step.destination().end()) {
      widest = &step;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSnapshot(const RankRound& round) {
  if (round.sends_snapshot || round.sends.empty() || round.receives.empty()) {
    return absl::OkStatus();
  }
  std::vector<ElementRange> sent, received;
  for (const CollectiveStep& step : round.sends) sent.push_back(step.source());
  for (const CollectiveStep& step : round.receives) received.push_back(step.destination());
  sent = UnionOf(std::move(sent));
  received = UnionOf(std::move(received));
  for (size_t s = 0, r = 0; s < sent.size() && r < received.size();) {
    if (Overlap(sent[s], received[r])) {
      return Fault(absl::StrCat("rank ", round.sends[0].from, ", ", Text(sent[s]), ": sent while ",
                                Text(received[r]),
                                " are written, in a round that sends no snapshot"));
    }
    ++(sent[s].end() < received[r].end() ? s : r);
  }
  return absl::OkStatus();
}

absl::Status InRound(size_t round, const absl::Status& status) {
  if (status.ok()) return status;
  return WithMessage(status, absl::StrCat(status.message(), " (round ", round, ")"));
}

absl::Status CheckRounds(const Collective& c, const CollectiveSchedule& schedule) {
  if (schedule.ranks != c.ranks) {
    return Fault(absl::StrCat("made for ", schedule.ranks, " ranks, not ", c.ranks));
  }
  for (size_t r = 0; r < schedule.rounds.size(); ++r) {
    for (const CollectiveStep& step : schedule.rounds[r].steps) {
      RETURN_IF_ERROR(InRound(r, CheckStep(c, step)));
    }
  }
  for (int rank = 0; rank < c.ranks; ++rank) {
    const std::vector<RankRound> rounds = RoundsOfRank(schedule, rank);
    for (size_t r = 0; r < rounds.size(); ++r) {
      RETURN_IF_ERROR(InRound(r, CheckWrites(rounds[r].receives)));
      if (c.kind == CollectiveKind::kAllToAll) continue;
      RETURN_IF_ERROR(InRound(r, CheckSnapshot(rounds[r])));
    }
  }
  return absl::OkStatus();
}

// ---- All rounds together, in place.

struct Content {
  std::vector<int> times;  // [rank]
  bool undefined = false;

  friend bool operator==(const Content&, const Content&) = default;
};

void Add(Content& sum, const Content& term) {
  for (size_t r = 0; r < sum.times.size(); ++r) sum.times[r] += term.times[r];
  sum.undefined |= term.undefined;
}

std::vector<int64_t> Sorted(std::vector<int64_t> cuts) {
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

class InPlaceRun {
 public:
  InPlaceRun(const Collective& c, const CollectiveSchedule& schedule) : c_(c) {
    cuts_ = {0, c.total};
    for (const ElementRange& block : c.blocks)
      cuts_.insert(cuts_.end(), {block.offset, block.end()});
    for (const CollectiveRound& round : schedule.rounds) {
      for (const CollectiveStep& step : round.steps) {
        cuts_.insert(cuts_.end(), {step.source_offset, step.source().end()});
      }
    }
    cuts_ = Sorted(std::move(cuts_));
    state_.resize(c.ranks);
    live_.resize(c.ranks);
    for (int rank = 0; rank < c.ranks; ++rank) {
      for (size_t cell = 0; cell + 1 < cuts_.size(); ++cell) {
        state_[rank].push_back(Initial(rank, cell));
        live_[rank].push_back(Wanted(rank, cell));
      }
    }
  }

  absl::Status Run(const CollectiveRound& round) {
    // Without a snapshot CheckSnapshot has shown that the round writes nothing that it reads.
    std::vector<std::vector<Content>> snapshot;
    if (round.sends_snapshot) snapshot = state_;
    const std::vector<std::vector<Content>>& before = round.sends_snapshot ? snapshot : state_;
    for (const CollectiveStep& step : round.steps) {
      const size_t end = Cell(step.source().end());
      bool news = step.action == StepAction::kReduce;
      for (size_t cell = Cell(step.source_offset); cell < end; ++cell) {
        const Content& arriving = before[step.from][cell];
        if (step.action == StepAction::kReduce) {
          Add(state_[step.to][cell], arriving);
        } else {
          news |= !(state_[step.to][cell] == arriving);
          state_[step.to][cell] = arriving;
        }
      }
      if (news) continue;
      return Fault(absl::StrCat("rank ", step.to, ", ", Text(step.destination()), ": rank ",
                                step.from, " delivers again what is already there"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckResult() const {
    for (int rank = 0; rank < c_.ranks; ++rank) {
      for (size_t cell = 0; cell + 1 < cuts_.size(); ++cell) {
        if (Wanted(rank, cell)) RETURN_IF_ERROR(CheckCell(rank, cell));
      }
    }
    return absl::OkStatus();
  }

  // Called for the rounds from the last to the first: whether what they deliver is used later.
  absl::Status RunBackward(const CollectiveRound& round) {
    for (const CollectiveStep& step : round.steps) RETURN_IF_ERROR(CheckUsed(step));
    for (const CollectiveStep& step : round.steps) {
      if (step.action == StepAction::kCopy) SetLive(step.to, step.destination(), false);
    }
    for (const CollectiveStep& step : round.steps) SetLive(step.from, step.source(), true);
    return absl::OkStatus();
  }

 private:
  absl::Status CheckUsed(const CollectiveStep& step) const {
    const size_t end = Cell(step.destination().end());
    for (size_t cell = Cell(step.destination_offset); cell < end; ++cell) {
      if (live_[step.to][cell]) continue;
      return Fault(absl::StrCat("rank ", step.to, ", ", TextOf(cell), ": rank ", step.from,
                                " delivers what is not used"));
    }
    return absl::OkStatus();
  }

  void SetLive(int rank, const ElementRange& block, bool live) {
    const size_t end = Cell(block.end());
    for (size_t cell = Cell(block.offset); cell < end; ++cell) live_[rank][cell] = live;
  }

  std::string TextOf(size_t cell) const {
    return Text({cuts_[cell], cuts_[cell + 1] - cuts_[cell]});
  }

  // Whether the rank wants the cell at the end.
  bool Wanted(int rank, size_t cell) const {
    return c_.kind != CollectiveKind::kReduceScatter || InBlock(rank, cell);
  }

  size_t Cell(int64_t cut) const {
    return std::lower_bound(cuts_.begin(), cuts_.end(), cut) - cuts_.begin();
  }

  bool InBlock(int rank, size_t cell) const {
    const ElementRange& block = c_.blocks[rank];
    return block.offset <= cuts_[cell] && cuts_[cell] < block.end();
  }

  // Whether the contribution of `rank` belongs into the cell's result.
  bool Contributes(int rank, size_t cell) const {
    return c_.kind != CollectiveKind::kAllGather || InBlock(rank, cell);
  }

  Content Initial(int rank, size_t cell) const {
    Content content{.times = std::vector<int>(c_.ranks, 0), .undefined = false};
    if (Contributes(rank, cell)) {
      content.times[rank] = 1;
    } else {
      content.undefined = true;
    }
    return content;
  }

  absl::Status CheckCell(int rank, size_t cell) const {
    const Content& content = state_[rank][cell];
    const std::string where = absl::StrCat("at the end rank ", rank, ", ", TextOf(cell), ": ");
    for (int other = 0; other < c_.ranks; ++other) {
      const int wanted = Contributes(other, cell) ? 1 : 0;
      const int found = content.times[other];
      if (found == wanted) continue;
      if (found == 0) {
        return Fault(absl::StrCat(where, "the contribution of rank ", other, " is missing"));
      }
      return Fault(absl::StrCat(where, "the contribution of rank ", other, " is there ", found,
                                " times, wanted ", wanted));
    }
    if (content.undefined) return Fault(absl::StrCat(where, "values are undefined"));
    return absl::OkStatus();
  }

  const Collective& c_;
  std::vector<int64_t> cuts_;
  std::vector<std::vector<Content>> state_;  // [rank][cell], forward
  // [rank][cell], backward: a step uses the content later, or a rank wants it at the end.
  std::vector<std::vector<bool>> live_;
};

absl::Status CheckInPlace(const Collective& c, const CollectiveSchedule& schedule) {
  InPlaceRun run(c, schedule);
  for (size_t r = 0; r < schedule.rounds.size(); ++r) {
    RETURN_IF_ERROR(InRound(r, run.Run(schedule.rounds[r])));
  }
  RETURN_IF_ERROR(run.CheckResult());
  for (size_t r = schedule.rounds.size(); r-- > 0;) {
    RETURN_IF_ERROR(InRound(r, run.RunBackward(schedule.rounds[r])));
  }
  return absl::OkStatus();
}

// ---- All rounds together, all-to-all.

// `wanted` is the step that would fill the whole range; `writes` are all steps into its
// destination.
absl::Status CheckDelivery(const CollectiveStep& wanted,
                           const std::vector<CollectiveStep>& writes) {
  std::vector<int64_t> cuts = {wanted.destination_offset, wanted.destination().end()};
  for (const CollectiveStep& step : writes) {
    for (int64_t cut : {step.destination_offset, step.destination().end()}) {
      cuts.push_back(std::clamp(cut, wanted.destination_offset, wanted.destination().end()));
    }
  }
  cuts = Sorted(std::move(cuts));
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const ElementRange cell = {cuts[i], cuts[i + 1] - cuts[i]};
    const std::string where = absl::StrCat("at the end rank ", wanted.to, ", ", Text(cell),
                                           " received: the data of rank ", wanted.from, " ");
    int found = 0;
    for (const CollectiveStep& step : writes) {
      if (!Overlap(step.destination(), cell)) continue;
      const int64_t from = cell.offset - step.destination_offset + step.source_offset;
      const int64_t from_wanted = cell.offset - wanted.destination_offset + wanted.source_offset;
      if (step.from != wanted.from || from != from_wanted) {
        return Fault(absl::StrCat(where, "is missing, there is ", Text({from, cell.count}),
                                  " of rank ", step.from));
      }
      ++found;
    }
    if (found == 0) return Fault(absl::StrCat(where, "is missing"));
    if (found > 1) return Fault(absl::StrCat(where, "arrives ", found, " times"));
  }
  return absl::OkStatus();
}

absl::Status CheckAllToAll(const Collective& c, const CollectiveSchedule& schedule) {
  std::vector<std::vector<CollectiveStep>> writes(c.ranks);
  for (const CollectiveRound& round : schedule.rounds) {
    for (const CollectiveStep& step : round.steps) writes[step.to].push_back(step);
  }
  for (int to = 0; to < c.ranks; ++to) {
    for (int from = 0; from < c.ranks; ++from) {
      const CollectiveStep wanted = {from,
                                     to,
                                     SendOffset(c, from, to),
                                     ReceiveOffset(c, from, to),
                                     c.counts[from][to],
                                     StepAction::kCopy};
      RETURN_IF_ERROR(CheckDelivery(wanted, writes[to]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSchedule(const Collective& collective, const CollectiveSchedule& schedule) {
  RETURN_IF_ERROR(Validate(collective));
  RETURN_IF_ERROR(CheckRounds(collective, schedule));
  if (collective.kind == CollectiveKind::kAllToAll) return CheckAllToAll(collective, schedule);
  return CheckInPlace(collective, schedule);
}

}  // namespace partita

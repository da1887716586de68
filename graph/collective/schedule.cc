#include "graph/collective/schedule.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"

namespace partita {

std::vector<int64_t> ElementsReceived(const CollectiveSchedule& schedule) {
  std::vector<int64_t> received(schedule.ranks, 0);
  for (const CollectiveRound& round : schedule.rounds) {
    for (const CollectiveStep& step : round.steps) {
      if (step.from != step.to) received[step.to] += step.count;
    }
  }
  return received;
}

int64_t TotalElementsReceived(const CollectiveSchedule& schedule) {
  int64_t sum = 0;
  for (int64_t received : ElementsReceived(schedule)) sum += received;
  return sum;
}

int64_t ScratchElements(const CollectiveSchedule& schedule, int rank) {
  int64_t most = 0;
  for (const CollectiveRound& round : schedule.rounds) {
    int64_t needed = 0;
    std::vector<ElementRange> sent;
    for (const CollectiveStep& step : round.steps) {
      if (step.to == rank && step.action == StepAction::kReduce) needed += step.count;
      if (step.from == rank && round.sends_snapshot) sent.push_back(step.source());
    }
    for (const ElementRange& block : UnionOf(std::move(sent))) needed += block.count;
    most = std::max(most, needed);
  }
  return most;
}

std::vector<RankRound> RoundsOfRank(const CollectiveSchedule& schedule, int rank) {
  std::vector<RankRound> result;
  result.reserve(schedule.rounds.size());
  for (const CollectiveRound& round : schedule.rounds) {
    RankRound mine;
    mine.sends_snapshot = round.sends_snapshot;
    for (const CollectiveStep& step : round.steps) {
      if (step.from == rank) mine.sends.push_back(step);
      if (step.to == rank) mine.receives.push_back(step);
    }
    std::sort(mine.sends.begin(), mine.sends.end(),
              [](const CollectiveStep& a, const CollectiveStep& b) {
                return std::tie(a.to, a.source_offset) < std::tie(b.to, b.source_offset);
              });
    std::sort(mine.receives.begin(), mine.receives.end(),
              [](const CollectiveStep& a, const CollectiveStep& b) {
                return std::tie(a.destination_offset, a.from) <
                       std::tie(b.destination_offset, b.from);
              });
    result.push_back(std::move(mine));
  }
  return result;
}

CollectiveSchedule CutSteps(CollectiveSchedule schedule, std::span<const int64_t> cuts) {
  for (CollectiveRound& round : schedule.rounds) {
    std::vector<CollectiveStep> steps;
    for (CollectiveStep rest : round.steps) {
      for (auto cut = std::upper_bound(cuts.begin(), cuts.end(), rest.destination_offset);
           cut != cuts.end() && *cut < rest.destination().end(); ++cut) {
        CollectiveStep first = rest;
        first.count = *cut - rest.destination_offset;
        rest.source_offset += first.count;
        rest.destination_offset += first.count;
        rest.count -= first.count;
        steps.push_back(first);
      }
      steps.push_back(rest);
    }
    round.steps = std::move(steps);
  }
  return schedule;
}

std::string ToString(const CollectiveSchedule& schedule) {
  std::string text;
  for (size_t r = 0; r < schedule.rounds.size(); ++r) {
    for (const CollectiveStep& step : schedule.rounds[r].steps) {
      absl::StrAppend(&text, "round ", r, ": ", step.from, " -> ", step.to,
                      step.action == StepAction::kReduce ? " reduce [" : " copy [",
                      step.source_offset, ", ", step.source().end(), ")");
      if (step.source_offset != step.destination_offset) {
        absl::StrAppend(&text, " to [", step.destination_offset, ", ", step.destination().end(),
                        ")");
      }
      absl::StrAppend(&text, "\n");
    }
  }
  return text;
}

void ScheduleWriter::Step(const CollectiveStep& step) {
  CHECK_GE(step.count, 0);
  if (step.count == 0 || !wants_more_) return;
  has_steps_ = true;
  OnStep(step);
}

void ScheduleWriter::EndRound(bool sends_snapshot) {
  if (std::exchange(has_steps_, false) && wants_more_) OnRound(sends_snapshot);
}

bool ScheduleWriter::EndAlikeRounds(int rounds) {
  if (!TakesAlikeRounds()) return false;
  if (std::exchange(has_steps_, false) && wants_more_) OnAlikeRounds(rounds);
  return true;
}

void ScheduleBuilder::OnRound(bool sends_snapshot) {
  round_.sends_snapshot = sends_snapshot;
  schedule_.rounds.push_back(std::exchange(round_, {}));
}

std::vector<ElementRange> UnionOf(std::vector<ElementRange> blocks) {
  std::sort(blocks.begin(), blocks.end(),
            [](const ElementRange& a, const ElementRange& b) { return a.offset < b.offset; });
  std::vector<ElementRange> merged;
  for (const ElementRange& block : blocks) {
    if (block.count == 0) continue;
    if (merged.empty() || merged.back().end() < block.offset) {
      merged.push_back(block);
    } else {
      merged.back().count = std::max(merged.back().end(), block.end()) - merged.back().offset;
    }
  }
  return merged;
}

}  // namespace partita

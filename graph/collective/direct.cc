#include "graph/collective/direct.h"

#include <utility>

#include "graph/collective/pairwise.h"
#include "graph/support/check.h"

namespace partita {
namespace {

// What goes from one rank to another.
CollectiveStep DirectStep(const Collective& c, int from, int to) {
  const auto in_place = [&](const ElementRange& block, StepAction action) {
    return CollectiveStep{from, to, block.offset, block.offset, block.count, action};
  };
  switch (c.kind) {
    case CollectiveKind::kAllReduce:
      return in_place({0, c.total}, StepAction::kReduce);
    case CollectiveKind::kReduceScatter:
      return in_place(c.blocks[to], StepAction::kReduce);
    case CollectiveKind::kAllGather:
      return in_place(c.blocks[from], StepAction::kCopy);
    case CollectiveKind::kAllToAll:
      return AllToAllStep(c, from, to);
  }
  CHECK(false) << "kind " << static_cast<int>(c.kind);
}

}  // namespace

CollectiveSchedule DirectSchedule(const Collective& collective, const ScheduleOptions&) {
  CollectiveRound round;
  round.sends_snapshot = collective.kind == CollectiveKind::kAllReduce;
  for (int to = 0; to < collective.ranks; ++to) {
    for (int from = 0; from < collective.ranks; ++from) {
      if (from == to && collective.kind != CollectiveKind::kAllToAll) continue;
      const CollectiveStep step = DirectStep(collective, from, to);
      if (step.count > 0) round.steps.push_back(step);
    }
  }
  CollectiveSchedule schedule{.ranks = collective.ranks, .rounds = {}};
  AddRound(schedule, std::move(round));
  return schedule;
}

CollectiveSchedule ScatterGatherSchedule(const Collective& collective,
                                         const ScheduleOptions& options) {
  CHECK(collective.kind == CollectiveKind::kAllReduce)
      << "scatter_gather does not do " << Name(collective.kind);
  Collective part = collective;
  part.blocks = EvenBlocks(collective.total, collective.ranks);
  part.kind = CollectiveKind::kReduceScatter;
  CollectiveSchedule schedule = DirectSchedule(part, options);
  part.kind = CollectiveKind::kAllGather;
  AppendRounds(schedule, DirectSchedule(part, options));
  return schedule;
}

}  // namespace partita

#include "graph/collective/pairwise.h"

#include <utility>

#include "graph/support/check.h"

namespace partita {

CollectiveStep AllToAllStep(const Collective& collective, int source, int destination) {
  return {.from = source,
          .to = destination,
          .source_offset = SendOffset(collective, source, destination),
          .destination_offset = ReceiveOffset(collective, source, destination),
          .count = collective.counts[source][destination],
          .action = StepAction::kCopy};
}

CollectiveSchedule PairwiseSchedule(const Collective& collective, const ScheduleOptions&) {
  CHECK(collective.kind == CollectiveKind::kAllToAll)
      << "pairwise does not do " << Name(collective.kind);
  CollectiveSchedule schedule{.ranks = collective.ranks, .rounds = {}};
  for (int t = 0; t < collective.ranks; ++t) {
    CollectiveRound round;
    for (int rank = 0; rank < collective.ranks; ++rank) {
      const CollectiveStep step = AllToAllStep(collective, rank, (rank + t) % collective.ranks);
      if (step.count > 0) round.steps.push_back(step);
    }
    AddRound(schedule, std::move(round));
  }
  return schedule;
}

}  // namespace partita

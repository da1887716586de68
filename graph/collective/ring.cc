#include "graph/collective/ring.h"

#include <utility>

#include "graph/support/check.h"

namespace partita {
namespace {

// One trip of every block around the ring. In round t rank r sends block r + first - t.
CollectiveSchedule Trip(const std::vector<ElementRange>& blocks, int first, StepAction action) {
  const int ranks = static_cast<int>(blocks.size());
  CollectiveSchedule schedule{.ranks = ranks, .rounds = {}};
  for (int t = 0; t + 1 < ranks; ++t) {
    CollectiveRound round;
    for (int rank = 0; rank < ranks; ++rank) {
      const int block = (rank + first - t + 2 * ranks) % ranks;
      AddStep(round, rank, (rank + 1) % ranks, blocks[block], action);
    }
    AddRound(schedule, std::move(round));
  }
  return schedule;
}

// The block that arrives at rank r in the last round, t = P-2, is r-1 + first - (P-2) = r + first +
// 1 mod P: its own if it sent block r-1 first.
CollectiveSchedule RingReduceScatter(const std::vector<ElementRange>& blocks) {
  return Trip(blocks, -1, StepAction::kReduce);
}

CollectiveSchedule RingAllGather(const std::vector<ElementRange>& blocks) {
  return Trip(blocks, 0, StepAction::kCopy);
}

}  // namespace

CollectiveSchedule RingSchedule(const Collective& collective, const ScheduleOptions&) {
  switch (collective.kind) {
    case CollectiveKind::kReduceScatter:
      return RingReduceScatter(collective.blocks);
    case CollectiveKind::kAllGather:
      return RingAllGather(collective.blocks);
    case CollectiveKind::kAllReduce: {
      const std::vector<ElementRange> blocks = EvenBlocks(collective.total, collective.ranks);
      CollectiveSchedule schedule = RingReduceScatter(blocks);
      AppendRounds(schedule, RingAllGather(blocks));
      return schedule;
    }
    case CollectiveKind::kAllToAll:
      break;
  }
  CHECK(false) << "ring does not do " << Name(collective.kind);
}

}  // namespace partita

#include "graph/collective/ring.h"

#include <utility>

#include "graph/support/check.h"

namespace partita {
namespace {

// One trip of every block around the ring: in round t rank r sends block r + first - t.
struct Trip {
  int first;
  StepAction action;

  CollectiveStep StepOf(const std::vector<ElementRange>& blocks, int t, int rank) const {
    const int ranks = static_cast<int>(blocks.size());
    const int number = (rank + first - t + 2 * ranks) % ranks;
    const ElementRange& block = blocks[static_cast<size_t>(number)];
    return {rank, (rank + 1) % ranks, block.offset, block.offset, block.count, action};
  }
};

// The block that arrives at rank r in the last round, t = P-2, is r-1 + first - (P-2) = r + first +
// 1 mod P: its own if it sent block r-1 first.
constexpr Trip kReducing = {-1, StepAction::kReduce};
constexpr Trip kGathering = {0, StepAction::kCopy};

void WriteTrip(const Trip& trip, const std::vector<ElementRange>& blocks, ScheduleWriter& out) {
  const int ranks = static_cast<int>(blocks.size());
  const bool are_alike = AreOfOneSize(blocks);
  for (int t = 0; t + 1 < ranks && out.wants_more(); ++t) {
    for (int rank = 0; rank < ranks; ++rank) out.Step(trip.StepOf(blocks, t, rank));
    if (are_alike && out.EndAlikeRounds(ranks - 1 - t)) return;
    out.EndRound();
  }
}

}  // namespace

int RingRounds(int ranks) { return 2 * (ranks - 1); }

CollectiveStep RingStep(const std::vector<ElementRange>& blocks, int round, int rank) {
  const int half = static_cast<int>(blocks.size()) - 1;
  return round < half ? kReducing.StepOf(blocks, round, rank)
                      : kGathering.StepOf(blocks, round - half, rank);
}

void WriteRing(const Collective& collective, const ScheduleOptions&, ScheduleWriter& out) {
  switch (collective.kind) {
    case CollectiveKind::kReduceScatter:
      return WriteTrip(kReducing, collective.blocks, out);
    case CollectiveKind::kAllGather:
      return WriteTrip(kGathering, collective.blocks, out);
    case CollectiveKind::kAllReduce: {
      const std::vector<ElementRange> blocks = EvenBlocks(collective.total, collective.ranks);
      WriteTrip(kReducing, blocks, out);
      return WriteTrip(kGathering, blocks, out);
    }
    case CollectiveKind::kAllToAll:
      break;
  }
  CHECK(false) << "ring does not do " << Name(collective.kind);
}

}  // namespace partita

#include "graph/collective/pairwise.h"

#include <vector>

#include "graph/support/check.h"

// Places in the buffers follow from those of the round before: what a rank sends goes to the next
// rank, and what it receives comes from the rank before, each around the ring of ranks.

namespace partita {

void WritePairwise(const Collective& collective, const ScheduleOptions&, ScheduleWriter& out) {
  CHECK(collective.kind == CollectiveKind::kAllToAll)
      << "pairwise does not do " << Name(collective.kind);
  const auto ranks = static_cast<size_t>(collective.ranks);
  std::vector<int64_t> send(ranks), receive(ranks), received_in_all(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const int own = static_cast<int>(rank);
    send[rank] = SendOffset(collective, own, own);
    receive[rank] = ReceiveOffset(collective, own, own);
    received_in_all[rank] = ReceiveElements(collective, own);
  }
  for (size_t t = 0; t < ranks && out.wants_more(); ++t) {
    for (size_t from = 0; from < ranks; ++from) {
      const size_t to = (from + t) % ranks;
      const int64_t count = collective.counts[from][to];
      out.Step({static_cast<int>(from), static_cast<int>(to), send[from], receive[to], count,
                StepAction::kCopy});
      send[from] = to + 1 == ranks ? 0 : send[from] + count;
      const size_t before = (from + ranks - 1) % ranks;  // whom `to` hears from next
      if (from == 0) receive[to] = received_in_all[to];
      receive[to] -= collective.counts[before][to];
    }
    out.EndRound();
  }
}

}  // namespace partita

#include "graph/collective/direct.h"

#include <utility>
#include <vector>

#include "graph/support/check.h"

namespace partita {
namespace {

// What goes from one rank to another in place.
CollectiveStep InPlaceStep(const Collective& c, int from, int to) {
  const auto step = [&](const ElementRange& block, StepAction action) {
    return CollectiveStep{from, to, block.offset, block.offset, block.count, action};
  };
  switch (c.kind) {
    case CollectiveKind::kAllReduce:
      return step({0, c.total}, StepAction::kReduce);
    case CollectiveKind::kReduceScatter:
      return step(c.blocks[static_cast<size_t>(to)], StepAction::kReduce);
    case CollectiveKind::kAllGather:
      return step(c.blocks[static_cast<size_t>(from)], StepAction::kCopy);
    case CollectiveKind::kAllToAll:
      break;
  }
  CHECK(false) << "kind " << static_cast<int>(c.kind);
}

void WriteAllToAll(const Collective& c, ScheduleWriter& out) {
  std::vector<int64_t> received(static_cast<size_t>(c.ranks), 0);  // from the ranks before
  for (int from = 0; from < c.ranks && out.wants_more(); ++from) {
    int64_t sent = 0;
    for (int to = 0; to < c.ranks; ++to) {
      const int64_t count = c.counts[static_cast<size_t>(from)][static_cast<size_t>(to)];
      int64_t& place = received[static_cast<size_t>(to)];
      out.Step({from, to, sent, place, count, StepAction::kCopy});
      sent += count;
      place += count;
    }
  }
  out.EndRound();
}

}  // namespace

void WriteDirect(const Collective& collective, const ScheduleOptions&, ScheduleWriter& out) {
  if (collective.kind == CollectiveKind::kAllToAll) return WriteAllToAll(collective, out);
  for (int from = 0; from < collective.ranks && out.wants_more(); ++from) {
    for (int to = 0; to < collective.ranks; ++to) {
      if (from != to) out.Step(InPlaceStep(collective, from, to));
    }
  }
  out.EndRound(collective.kind == CollectiveKind::kAllReduce);
}

void WriteScatterGather(const Collective& collective, const ScheduleOptions& options,
                        ScheduleWriter& out) {
  CHECK(collective.kind == CollectiveKind::kAllReduce)
      << "scatter_gather does not do " << Name(collective.kind);
  Collective part = collective;
  part.blocks = EvenBlocks(collective.total, collective.ranks);
  part.kind = CollectiveKind::kReduceScatter;
  WriteDirect(part, options, out);
  part.kind = CollectiveKind::kAllGather;
  WriteDirect(part, options, out);
}

}  // namespace partita

#include "graph/collective/halving_doubling.h"

#include <bit>
#include <utility>

#include "graph/support/check.h"

// Blocks of virtual ranks are contiguous in rank order, so the blocks of an aligned group of
// virtual ranks are one range and each message is one step.

namespace partita {
namespace {

struct Fold {
  int ranks;
  int hosts;   // V
  int guests;  // P - V
};

Fold FoldOf(int ranks) {
  const int hosts = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  return {ranks, hosts, ranks - hosts};
}

int HostRank(const Fold& fold, int host) {
  return host < fold.guests ? 2 * host + 1 : host + fold.guests;
}

int GuestRank(int host) { return 2 * host; }

ElementRange Join(const ElementRange& first, const ElementRange& last) {
  return {first.offset, last.end() - first.offset};
}

// A host's block is its own and its guest's.
std::vector<ElementRange> HostBlocks(const Fold& fold, const std::vector<ElementRange>& blocks) {
  std::vector<ElementRange> result;
  for (int host = 0; host < fold.hosts; ++host) {
    const int rank = HostRank(fold, host);
    result.push_back(Join(blocks[host < fold.guests ? GuestRank(host) : rank], blocks[rank]));
  }
  return result;
}

// The blocks of hosts [first, first + distance) with first = host rounded down to a multiple of
// distance.
ElementRange GroupRange(const std::vector<ElementRange>& host_blocks, int host, int distance) {
  const int first = host / distance * distance;
  return Join(host_blocks[first], host_blocks[first + distance - 1]);
}

// Each host ends with the sum of its own block over all hosts.
void WriteHalving(const Fold& fold, const std::vector<ElementRange>& host_blocks,
                  ScheduleWriter& out) {
  for (int distance = fold.hosts / 2; distance >= 1; distance /= 2) {
    for (int host = 0; host < fold.hosts; ++host) {
      const int partner = host ^ distance;
      out.Step(HostRank(fold, host), HostRank(fold, partner),
               GroupRange(host_blocks, partner, distance), StepAction::kReduce);
    }
    out.EndRound();
  }
}

// Each host starts with its own block and ends with all.
void WriteDoubling(const Fold& fold, const std::vector<ElementRange>& host_blocks,
                   ScheduleWriter& out) {
  for (int distance = 1; distance < fold.hosts; distance *= 2) {
    for (int host = 0; host < fold.hosts; ++host) {
      out.Step(HostRank(fold, host), HostRank(fold, host ^ distance),
               GroupRange(host_blocks, host, distance), StepAction::kCopy);
    }
    out.EndRound();
  }
}

// Every guest's `total` elements are reduced into its host's.
void WriteGuestSums(const Fold& fold, int64_t total, ScheduleWriter& out) {
  for (int host = 0; host < fold.guests; ++host) {
    out.Step(GuestRank(host), HostRank(fold, host), {0, total}, StepAction::kReduce);
  }
  out.EndRound();
}

void WriteReducing(const Collective& c, ScheduleWriter& out) {
  const Fold fold = FoldOf(c.ranks);
  WriteGuestSums(fold, c.total, out);
  WriteHalving(fold, HostBlocks(fold, c.blocks), out);
  for (int host = 0; host < fold.guests; ++host) {
    const int guest = GuestRank(host);
    out.Step(HostRank(fold, host), guest, c.blocks[guest], StepAction::kCopy);
  }
  out.EndRound();
}

void WriteGathering(const Collective& c, ScheduleWriter& out) {
  const Fold fold = FoldOf(c.ranks);
  for (int host = 0; host < fold.guests; ++host) {
    const int guest = GuestRank(host);
    out.Step(guest, HostRank(fold, host), c.blocks[guest], StepAction::kCopy);
  }
  out.EndRound();
  WriteDoubling(fold, HostBlocks(fold, c.blocks), out);
  for (int host = 0; host < fold.guests; ++host) {
    const int rank = HostRank(fold, host), guest = GuestRank(host);
    const ElementRange& own = c.blocks[guest];
    out.Step(rank, guest, {0, own.offset}, StepAction::kCopy);
    out.Step(rank, guest, {own.end(), c.total - own.end()}, StepAction::kCopy);
  }
  out.EndRound();
}

void WriteAllReducing(const Collective& c, ScheduleWriter& out) {
  const Fold fold = FoldOf(c.ranks);
  const std::vector<ElementRange> host_blocks = EvenBlocks(c.total, fold.hosts);
  WriteGuestSums(fold, c.total, out);
  WriteHalving(fold, host_blocks, out);
  WriteDoubling(fold, host_blocks, out);
  for (int host = 0; host < fold.guests; ++host) {
    out.Step(HostRank(fold, host), GuestRank(host), {0, c.total}, StepAction::kCopy);
  }
  out.EndRound();
}

}  // namespace

void WriteHalvingDoubling(const Collective& collective, const ScheduleOptions&,
                          ScheduleWriter& out) {
  switch (collective.kind) {
    case CollectiveKind::kAllReduce:
      return WriteAllReducing(collective, out);
    case CollectiveKind::kReduceScatter:
      return WriteReducing(collective, out);
    case CollectiveKind::kAllGather:
      return WriteGathering(collective, out);
    case CollectiveKind::kAllToAll:
      break;
  }
  CHECK(false) << "halving_doubling does not do " << Name(collective.kind);
}

}  // namespace partita

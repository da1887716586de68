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
void AddHalving(const Fold& fold, const std::vector<ElementRange>& host_blocks,
                CollectiveSchedule& schedule) {
  for (int distance = fold.hosts / 2; distance >= 1; distance /= 2) {
    CollectiveRound round;
    for (int host = 0; host < fold.hosts; ++host) {
      const int partner = host ^ distance;
      AddStep(round, HostRank(fold, host), HostRank(fold, partner),
              GroupRange(host_blocks, partner, distance), StepAction::kReduce);
    }
    AddRound(schedule, std::move(round));
  }
}

// Each host starts with its own block and ends with all.
void AddDoubling(const Fold& fold, const std::vector<ElementRange>& host_blocks,
                 CollectiveSchedule& schedule) {
  for (int distance = 1; distance < fold.hosts; distance *= 2) {
    CollectiveRound round;
    for (int host = 0; host < fold.hosts; ++host) {
      AddStep(round, HostRank(fold, host), HostRank(fold, host ^ distance),
              GroupRange(host_blocks, host, distance), StepAction::kCopy);
    }
    AddRound(schedule, std::move(round));
  }
}

// Every guest's `total` elements are reduced into its host's.
void AddGuestSums(const Fold& fold, int64_t total, CollectiveSchedule& schedule) {
  CollectiveRound round;
  for (int host = 0; host < fold.guests; ++host) {
    AddStep(round, GuestRank(host), HostRank(fold, host), {0, total}, StepAction::kReduce);
  }
  AddRound(schedule, std::move(round));
}

CollectiveSchedule Reducing(const Collective& c) {
  const Fold fold = FoldOf(c.ranks);
  const std::vector<ElementRange> host_blocks = HostBlocks(fold, c.blocks);
  CollectiveSchedule schedule{.ranks = c.ranks, .rounds = {}};
  AddGuestSums(fold, c.total, schedule);
  AddHalving(fold, host_blocks, schedule);
  CollectiveRound last;
  for (int host = 0; host < fold.guests; ++host) {
    const int guest = GuestRank(host);
    AddStep(last, HostRank(fold, host), guest, c.blocks[guest], StepAction::kCopy);
  }
  AddRound(schedule, std::move(last));
  return schedule;
}

CollectiveSchedule Gathering(const Collective& c) {
  const Fold fold = FoldOf(c.ranks);
  CollectiveSchedule schedule{.ranks = c.ranks, .rounds = {}};
  CollectiveRound first, last;
  for (int host = 0; host < fold.guests; ++host) {
    const int guest = GuestRank(host);
    const ElementRange& own = c.blocks[guest];
    AddStep(first, guest, HostRank(fold, host), own, StepAction::kCopy);
    AddStep(last, HostRank(fold, host), guest, {0, own.offset}, StepAction::kCopy);
    AddStep(last, HostRank(fold, host), guest, {own.end(), c.total - own.end()}, StepAction::kCopy);
  }
  AddRound(schedule, std::move(first));
  AddDoubling(fold, HostBlocks(fold, c.blocks), schedule);
  AddRound(schedule, std::move(last));
  return schedule;
}

CollectiveSchedule AllReducing(const Collective& c) {
  const Fold fold = FoldOf(c.ranks);
  const std::vector<ElementRange> host_blocks = EvenBlocks(c.total, fold.hosts);
  CollectiveSchedule schedule{.ranks = c.ranks, .rounds = {}};
  AddGuestSums(fold, c.total, schedule);
  AddHalving(fold, host_blocks, schedule);
  AddDoubling(fold, host_blocks, schedule);
  CollectiveRound last;
  for (int host = 0; host < fold.guests; ++host) {
    AddStep(last, HostRank(fold, host), GuestRank(host), {0, c.total}, StepAction::kCopy);
  }
  AddRound(schedule, std::move(last));
  return schedule;
}

}  // namespace

CollectiveSchedule HalvingDoublingSchedule(const Collective& collective, const ScheduleOptions&) {
  switch (collective.kind) {
    case CollectiveKind::kAllReduce:
      return AllReducing(collective);
    case CollectiveKind::kReduceScatter:
      return Reducing(collective);
    case CollectiveKind::kAllGather:
      return Gathering(collective);
    case CollectiveKind::kAllToAll:
      break;
  }
  CHECK(false) << "halving_doubling does not do " << Name(collective.kind);
}

}  // namespace partita

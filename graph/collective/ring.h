#pragma once

#include <vector>

#include "graph/collective/schedule.h"

namespace partita {

// Ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// 2009): rank r sends to r+1 mod P and receives from r-1 mod P only. Blocks travel once around: P-1
// rounds, in each of which every block crosses one link. All-reduce is reduce-scatter, then
// all-gather, over even blocks: 2(P-1) rounds, and all ranks together receive exactly 2(P-1) *
// total elements, however uneven the blocks.
//
// Order of summation of block b: rank b+1 first, then b+2, ... around to b, each rank adding
// itself to the sum so far (the operands of one addition in ascending order of ranks); every rank
// ends with a copy of that one result.
void WriteRing(const Collective& collective, const ScheduleOptions& options, ScheduleWriter& out);

// The rounds of its all-reduce, and what a rank sends in one of them; a block for each rank.
int RingRounds(int ranks);
CollectiveStep RingStep(const std::vector<ElementRange>& blocks, int round, int rank);

}  // namespace partita

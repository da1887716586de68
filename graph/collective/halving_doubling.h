#pragma once

#include "graph/collective/schedule.h"

namespace partita {

// Recursive halving and doubling (Rabenseifner, "Optimization of collective reduction operations",
// 2004) for any number of ranks P: reduce-scatter by halving the range, all-gather by doubling it,
// all-reduce by both.
//
// V = the largest power of two that is at most P. Where V < P, the first 2(P-V) ranks form pairs
// (2v, 2v+1): rank 2v, the guest, first folds its elements into rank 2v+1, its host, sits out, and
// gets its result from the host at the end. Host v (rank 2v+1 in a pair, else rank v+P-V) then
// works as virtual rank v. Rounds: log2(V) each way, plus one or two for guests. For a power of two
// all-reduce receives 2(P-1)/P of the elements per rank; hosts of guests receive more.
//
// Order of summation: guest + host first; then, with distance d = V/2, V/4, .. 1, the sums of
// virtual ranks v and v xor d are added: a balanced binary tree. It is the same tree for every
// element, and each element's sum is computed on one rank and copied, so all ranks end with the
// same bits.
void WriteHalvingDoubling(const Collective& collective, const ScheduleOptions& options,
                          ScheduleWriter& out);

}  // namespace partita

#pragma once

#include "graph/collective/schedule.h"

namespace partita {

// Every rank sends its elements to every rank that needs them, in one round: the fewest rounds, for
// messages so small that latency is all. All-reduce receives (P-1) * total elements per rank, more
// than others where P > 2, and sends a snapshot; the other kinds receive no more than they must.
// Sums are in order of ranks.
void WriteDirect(const Collective& collective, const ScheduleOptions& options, ScheduleWriter& out);

// All-reduce in two rounds: direct reduce-scatter over even blocks, then direct all-gather. All
// ranks together receive 2(P-1) * total elements, as with ring. Sums are in order of ranks: the
// bits of WriteDirect.
void WriteScatterGather(const Collective& collective, const ScheduleOptions& options,
                        ScheduleWriter& out);

}  // namespace partita

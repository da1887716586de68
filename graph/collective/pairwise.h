#pragma once

#include "graph/collective/schedule.h"

namespace partita {

// All-to-all in P rounds: in round t rank r sends to r+t mod P and receives from r-t mod P, so each
// rank sends and receives one message per round. Round 0 is the copy from a rank to itself.
void WritePairwise(const Collective& collective, const ScheduleOptions& options,
                   ScheduleWriter& out);

}  // namespace partita

#pragma once

#include <cstdint>
#include <span>

#include "runtime/executor/executor.h"

namespace partita {

// How much of a step its devices worked, whichever of them and on whichever stream.
struct KernelShare {
  double busy = 0;  // part of the step in which something ran
  double gaps = 0;  // part of the step between the first start and the last end in which
                    // nothing ran
  int64_t longest_gap_ns = 0;
  int64_t pieces = 0;   // of work
  int64_t step_ns = 0;  // as recorded
};

// From when each instruction of one device ran in a step of `step_ns`. Work that took no time
// counts as a piece. Zeros for no work.
KernelShare KernelShareOf(std::span<const MeasuredInstruction> timeline, int64_t step_ns);

// Returns what remains of the gaps in a step that takes `ns` without a recording, as a part of it: what the
// recorded step took longer is time of recording, between pieces of work.
double GapsWithoutRecording(const KernelShare& share, double ns);

}  // namespace partita

#pragma once

#include <cstdint>

#include "graph/collective/collective.h"

namespace partita {

// Speed of collectives in the words of nccl-tests (its doc/PERFORMANCE.md), so that figures
// compare with other people's.
struct CollectiveBandwidth {
  int64_t bytes = 0;     // size of the operation: the whole tensor that is reduced, gathered or
                         // scattered
  double algorithm = 0;  // "algbw": bytes / time, bytes per second
  // "busbw": algbw times a factor of kind and ranks, 2(n-1)/n for all-reduce and (n-1)/n for the
  // others: what the slowest link carries, to be compared with its data sheet at any number of
  // ranks.
  double bus = 0;
};

// Precondition: ns > 0.
CollectiveBandwidth BandwidthOf(const Collective& collective, int64_t element_bytes, int64_t ns);

}  // namespace partita

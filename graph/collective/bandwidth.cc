#include "graph/collective/bandwidth.h"

#include <algorithm>

namespace partita {
namespace {

double BusFactor(CollectiveKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      return (n - 1) / n;
  }
  return 1;
}

// Of all-to-all: what a rank sends, its own part included.
int64_t ElementsOf(const Collective& collective) {
  if (collective.kind != CollectiveKind::kAllToAll) return collective.total;
  int64_t most = 0;
  for (int rank = 0; rank < collective.ranks; ++rank) {
    most = std::max(most, SendElements(collective, rank));
  }
  return most;
}

}  // namespace

CollectiveBandwidth BandwidthOf(const Collective& collective, int64_t element_bytes, int64_t ns) {
  CollectiveBandwidth result{.bytes = ElementsOf(collective) * element_bytes};
  result.algorithm = static_cast<double>(result.bytes) / (1e-9 * static_cast<double>(ns));
  result.bus = result.algorithm * BusFactor(collective.kind, collective.ranks);
  return result;
}

}  // namespace partita

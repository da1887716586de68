#include "planner/simulator/urgency.h"

#include <cstddef>

#include "graph/support/fingerprint.h"

namespace partita {

std::vector<int32_t> UrgenciesOf(std::span<const uint32_t> draws, int32_t subjects) {
  constexpr uint32_t kOneIn = 20;
  if (draws.empty()) return {};
  std::vector<int32_t> urgencies(static_cast<size_t>(subjects), kEvenUrgency);
  for (size_t k = 0; k < urgencies.size(); ++k) {
    for (size_t d = draws.size(); d-- > 0;) {  // the last that changes it counts
      const uint64_t word = Mix64(uint64_t{draws[d]} << 32 | k);
      if (static_cast<uint32_t>(word) % kOneIn != 0) continue;
      urgencies[k] = static_cast<int32_t>((word >> 32) % (kMostUrgency + 1));
      break;
    }
  }
  return urgencies;
}

}  // namespace partita

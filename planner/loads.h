#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace partita {

// Nanoseconds for which some resources are busy: (resource, time), each resource once.
using Loads = std::vector<std::pair<int32_t, int64_t>>;

// Adds up loads, again and again, without a list of all resources for each sum. Not for several
// threads.
class LoadSums {
 public:
  // For resources below this number.
  explicit LoadSums(int32_t resources) : sums_(static_cast<size_t>(resources), 0) {}

  // Precondition: the time is not negative.
  void Add(int32_t resource, int64_t time) {
    if (time == 0) return;
    int64_t& sum = sums_[static_cast<size_t>(resource)];
    if (sum == 0) loads_.emplace_back(resource, 0);
    sum += time;
  }
  // Takes the sums of what was added, by resource in the order of first appearance.
  Loads Take() {
    for (auto& [resource, time] : loads_) {
      time = std::exchange(sums_[static_cast<size_t>(resource)], 0);
    }
    return std::exchange(loads_, {});
  }

 private:
  std::vector<int64_t> sums_;  // by resource; 0 for those that are not in loads_
  Loads loads_;                // resources; no times yet
};

}  // namespace partita

#include "graph/verify/region_elements.h"

#include <gtest/gtest.h>

#include <random>

namespace partita {
namespace {

TEST(RegionElementsTest, NextElementsAreThoseThatCountingFinds) {
  std::mt19937_64 random(1);
  int inside = 0;
  for (int round = 0; round < 2000; ++round) {
    const int rank = static_cast<int>(random() % 5);
    Box window(rank), region(rank);
    for (int d = 0; d < rank; ++d) {
      const auto first = static_cast<int64_t>(random() % 4);
      window[d] = {first, first + 1 + static_cast<int64_t>(random() % 5)};
      const auto size = static_cast<uint64_t>(window[d].size());
      const auto skipped = static_cast<int64_t>(random() % size);
      const auto left = static_cast<uint64_t>(window[d].size() - skipped);
      region[d].lo = window[d].lo + skipped;
      region[d].hi = region[d].lo + 1 + static_cast<int64_t>(random() % left);
    }
    // Elements of the region from the last one on.
    std::optional<int64_t> next;
    for (int64_t element = window.volume(); element-- > 0;) {
      Box at(rank);
      int64_t rest = element;
      for (int d = rank; d-- > 0;) {
        const int64_t index = window[d].lo + rest % window[d].size();
        at[d] = {index, index + 1};
        rest /= window[d].size();
      }
      if (region.Contains(at)) next = element;
      inside += region.Contains(at);
      ASSERT_EQ(NextElementOf(region, window, element), next)
          << ToString(region) << " in " << ToString(window) << " from " << element;
    }
  }
  EXPECT_GT(inside, 2000);
}

}  // namespace
}  // namespace partita

#include "graph/support/median.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace partita {
namespace {

TEST(MedianTest, IsTheMiddleOrTheMeanOfTheTwoThere) {
  EXPECT_EQ(Median(std::vector<int64_t>{7}), 7);
  EXPECT_EQ(Median(std::vector<int64_t>{9, 1, 4}), 4);
  EXPECT_EQ(Median(std::vector<int64_t>{4, 9, 1, 5}), 4);
  EXPECT_DOUBLE_EQ(Median(std::vector<double>{4, 9, 1, 5}), 4.5);
  EXPECT_DOUBLE_EQ(Median(std::vector<double>{2, 2, 1, 2}), 2);
  // The sum of these does not fit.
  EXPECT_EQ(Median(std::vector<int64_t>{INT64_MAX, INT64_MAX - 2}), INT64_MAX - 1);
}

}  // namespace
}  // namespace partita

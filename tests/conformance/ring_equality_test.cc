// Split training equals serial training in the ring, bit for bit, for random graphs and strategies.
#include "tests/testing/ring_equality.h"

#include <gtest/gtest.h>

#include <iostream>

#include "graph/graph_text.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr int kSteps = 3;

// Checks `plans` strategies for each seed's graph; stops at the first that differs.
StrategyCoverage CheckSeeds(uint64_t first, uint64_t last, int plans) {
  StrategyCoverage coverage;
  for (uint64_t seed = first; seed < last; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = WithRingArithmetic(RandomTrainingGraph(random));
    const RingValues values = seed % 4 == 0 ? RingValues::kSmall : RingValues::kRandom;
    const SerialRun serial(graph, kSteps, values, random);
    for (int k = 0; k < plans; ++k) {
      const PartitionOptions options = RandomPartitionOptions(random);
      const Strategy strategy = RandomStrategy(graph, options.devices, random);
      coverage.Add(graph, strategy, options.devices);
      const auto tasks = Partition(graph, strategy, options);
      if (!tasks.ok()) {
        ADD_FAILURE() << "seed " << seed << " plan " << k << ": " << tasks.status();
        return coverage;
      }
      const absl::Status status = serial.Compare(*tasks, &random);
      if (!status.ok()) {
        ADD_FAILURE() << "seed " << seed << " plan " << k << ": " << status << "\n"
                      << GraphText(graph);
        return coverage;
      }
    }
  }
  std::cout << coverage.ToString();
  return coverage;
}

TEST(RingEqualityTest, RandomStrategiesTrainLikeTheSerialModel) {
  const StrategyCoverage coverage = CheckSeeds(0, 1000, 2);
  EXPECT_EQ(coverage.pairs, 2000);
  EXPECT_GE(coverage.Share("uneven"), 0.3);
  EXPECT_GE(coverage.Share("neighbours on different devices"), 0.3);
  EXPECT_GE(coverage.Share("pending sum"), 0.2);
  EXPECT_GE(coverage.Share("several parts per device"), 0.1);
  for (const char* feature :
       {"replica", "empty box", "permuted devices", "device subset", "operand read once",
        "overlapping operand boxes (halo)", "overlapping copies", "pending maximum"}) {
    EXPECT_GT(coverage.Share(feature), 0) << feature;
  }
}

TEST(RingEqualityTest, LongRunOfManyMorePairs) { CheckSeeds(1000000, 1005000, 4); }

}  // namespace
}  // namespace partita

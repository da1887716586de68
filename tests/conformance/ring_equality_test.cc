// Split training equals serial training in the ring, bit for bit, for random graphs and strategies.
#include "tests/testing/ring_equality.h"

#include <gtest/gtest.h>

#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/graph_text.h"
#include "graph/training_graph.h"
#include "tests/testing/model_writer.h"
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
  const StrategyCoverage coverage = CheckSeeds(0, 1800, 4);
  EXPECT_GE(coverage.pairs, 2000);
  EXPECT_GE(coverage.Share("uneven"), 0.3);
  EXPECT_GE(coverage.Share("neighbours on different devices"), 0.3);
  EXPECT_GE(coverage.Share("pending sum"), 0.2);
  EXPECT_GE(coverage.Share("several parts per device"), 0.1);
  for (const char* feature :
       {"replica", "empty box", "permuted devices", "device subset", "operand read once",
        "overlapping operand boxes (halo)", "overlapping copies", "pending maximum"}) {
    EXPECT_GT(coverage.Share(feature), 0.02) << feature;
  }
  for (const auto& [loop, count] : coverage.splits) EXPECT_GE(count, 20) << loop;
  for (const auto& [name, description] : OperatorTable()) {
    const auto it = coverage.splits.lower_bound(absl::StrCat(name, "."));
    EXPECT_TRUE(it != coverage.splits.end() && absl::StartsWith(it->first, absl::StrCat(name, ".")))
        << name << " is in no random graph";
  }
}

// The gradient of a weight that many operators share, as in unrolled recurrent layers.
TEST(RingEqualityTest, HundredsOfProducersOfOneTensorKeepTheirTermsApart) {
  ModelWriter m("shared", DType::kFloat32);
  TensorId y = m.Input({2, 2});
  const TensorId w = m.Weight("w", {2, 2}, 2);
  for (int i = 0; i < 300; ++i) {
    y = ModelWriter::Get(
        m.builder.Add({.name = absl::StrCat("use", i), .attrs = MatMul{}, .inputs = {y, w}}));
  }
  std::mt19937_64 random(5);
  const Graph graph = WithRingArithmetic(ModelWriter::Get(BuildTrainingGraph(m.Finish(y), {})));
  const SerialRun serial(graph, 2, RingValues::kRandom, random);
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    strategy.configs[id.index()].degrees[0] = 2;
    strategy.configs[id.index()].devices = {DeviceId(0), DeviceId(1)};
  }
  const auto tasks = Partition(graph, strategy, {.devices = 2});
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  EXPECT_EQ(serial.Compare(*tasks), absl::OkStatus());
}

TEST(RingEqualityTest, LongRunOfManyMorePairs) { CheckSeeds(1000000, 1005000, 4); }

}  // namespace
}  // namespace partita

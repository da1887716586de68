// Every kind of mistake in a task graph is found by comparing with the serial run, and the first
// tensor that differs is named.
#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "absl/strings/match.h"
#include "graph/training/training_graph.h"
#include "tests/testing/dense_model.h"
#include "tests/testing/faults.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_collectives.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"
#include "tests/testing/ring_equality.h"

namespace partita {
namespace {

struct Count {
  int planted = 0;
  int found = 0;
  int named = 0;  // as a difference of a named tensor
};

// Plants each kind up to `most` times into task graphs of random strategies; `graph_of(seed)`.
template <class GraphOf>
std::map<std::string, Count> PlantAll(uint64_t seeds, int most, GraphOf&& graph_of) {
  std::map<std::string, Count> counts;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = graph_of(random);
    const SerialRun serial(graph, 2, RingValues::kRandom, random);
    const PartitionOptions options = RandomPartitionOptions(random);
    const Strategy strategy = RandomStrategy(graph, options.devices, random);
    std::mt19937_64 collectives(seed);
    const auto tasks =
        Partition(graph, WithRandomCollectives(graph, strategy, options, collectives), options);
    CHECK(tasks.ok()) << tasks.status();
    for (const Fault& fault : PlantedFaults()) {
      Count& count = counts[fault.name];
      if (count.planted >= most) continue;
      const auto faulty = WithFault(fault, graph, *tasks, random);
      if (!faulty.has_value()) continue;
      const absl::Status status = serial.Compare(*faulty);
      ++count.planted;
      count.found += !status.ok();
      count.named += absl::IsDataLoss(status) && absl::StrContains(status.message(), "'");
      if (status.ok()) std::cout << "seed " << seed << ": " << fault.name << " changed nothing\n";
    }
  }
  for (const auto& [name, count] : counts) {
    std::cout << name << ": planted " << count.planted << ", found " << count.found << ", named "
              << count.named << "\n";
  }
  return counts;
}

TEST(PlantedFaultsTest, EachKindIsFoundInADenseModel) {
  const auto counts = PlantAll(150, 20, [](std::mt19937_64& random) {
    return WithRingArithmetic(ModelWriter::Get(BuildTrainingGraph(
        DenseModel(), {.optimizer = static_cast<TrainingOptions::Optimizer>(random() % 3)})));
  });
  int kinds = 0;
  for (const auto& [name, count] : counts) {
    EXPECT_GE(count.found, count.planted * 9 / 10) << name;
    EXPECT_GE(count.named, count.planted * 8 / 10) << name;
    kinds += count.planted > 0;
  }
  EXPECT_GE(kinds, 20);
}

// Here some places have no effect: a row that no stride reaches, a gradient that a ReLU stops.
TEST(PlantedFaultsTest, EachKindIsFoundInRandomModels) {
  const auto counts = PlantAll(400, 20, [](std::mt19937_64& random) {
    return WithRingArithmetic(RandomTrainingGraph(random));
  });
  for (const auto& [name, count] : counts) {
    EXPECT_GE(count.found, 5) << name;
    EXPECT_GE(count.found, count.planted / 2) << name;
  }
}

}  // namespace
}  // namespace partita

// ZeRO's experts and random strategies with random layouts of weights train like the serial model,
// bit for bit in the ring: with every optimizer, on several numbers of devices, with several
// microbatches.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/model/microbatch.h"
#include "graph/parallel/device_topology.h"
#include "graph/support/status_macros.h"
#include "graph/training/training_graph.h"
#include "planner/expert/expert_strategies.h"
#include "runtime/backend/backends.h"
#include "tests/conformance/executed_run.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_strategy.h"
#include "tests/testing/ring_equality.h"

namespace partita {
namespace {

constexpr int kSteps = 3;
constexpr int kRandomStrategies = 9;  // for each combination
constexpr int kPairsForOneExecuted = 4;

// Layers with every kind of weight: shared by gradients, read by backward or not, kept statistics.
Graph Model() {
  ModelWriter m("layers", DType::kFloat32);
  TensorId y = m.BatchNorm("bn", m.Conv("conv", m.Input({8, 3, 4, 4}), 5));
  y = m.Relu("relu", y);
  y = ModelWriter::Get(
      m.builder.Add({.name = "flat", .attrs = Reshape{.shape = {-1, 80}}, .inputs = {y}}));
  return m.Finish(m.Linear("fc2", m.Relu("relu2", m.Linear("fc1", y, 7)), 5));
}

Graph RingGraph(TrainingOptions options, int microbatches, bool squares) {
  if (squares) options.loss = TrainingOptions::kSumOfSquares;
  const Graph model = ModelWriter::Get(Microbatch(Model(), microbatches));
  return WithRingArithmetic(ModelWriter::Get(BuildTrainingGraph(model, options)));
}

class ShardedTraining : public ::testing::TestWithParam<TrainingOptions::Optimizer> {
 protected:
  // One in a few pairs runs in an executor as well.
  absl::Status Check(const SerialRun& serial, const Strategy& strategy,
                     const PartitionOptions& options) {
    ASSIGN_OR_RETURN(const TaskGraph tasks, Partition(serial.graph(), strategy, options));
    RETURN_IF_ERROR(serial.Compare(tasks, &random_));
    if (++pairs_ % kPairsForOneExecuted != 0) return absl::OkStatus();
    ++executed_;
    ASSIGN_OR_RETURN(EvaluatedStep step,
                     orders_.StepOf(serial.graph(), strategy, options, random_));
    ASSIGN_OR_RETURN(const auto run, ExecutedRun::Open(serial.graph(), std::move(step.tasks),
                                                       std::move(step.order), backend_, nullptr));
    return serial.Compare(*run);
  }

  std::mt19937_64 random_{21};
  int pairs_ = 0, executed_ = 0;

 private:
  const std::shared_ptr<const Backend> backend_ = ModelWriter::Get(MakeBackend("reference"));
  PlannerOrders orders_;
};

TEST_P(ShardedTraining, EqualsTheSerialModel) {
  for (int microbatches : {1, 2, 4}) {
    const TrainingOptions options{.optimizer = GetParam(), .in_flight = microbatches / 2};
    const Graph graph = RingGraph(options, microbatches, microbatches == 2);
    const SerialRun serial(graph, kSteps, RingValues::kRandom, random_);
    for (int devices : {2, 3, 4, 8}) {
      SCOPED_TRACE(absl::StrCat(microbatches, " microbatches on ", devices, " devices"));
      std::vector<Strategy> strategies;
      for (const char* expert : {"zero2", "zero3"}) {
        strategies.push_back(ModelWriter::Get(
            ModelWriter::Get(ExpertNamed(expert))(graph, VirtualCpuDevices(devices))));
      }
      for (int k = 0; k < kRandomStrategies; ++k) {
        strategies.push_back(RandomStrategy(graph, devices, random_));
      }
      for (const Strategy& strategy : strategies) {
        PartitionOptions choices = RandomPartitionOptions(random_);
        choices.devices = devices;
        choices.node_of_device.clear();
        choices.class_of_device.clear();
        ASSERT_EQ(Check(serial, strategy, choices), absl::OkStatus());
      }
    }
  }
  EXPECT_EQ(pairs_, 3 * 4 * (2 + kRandomStrategies));
  EXPECT_GE(executed_, 30);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ShardedTraining,
                         ::testing::Values(TrainingOptions::kSgd, TrainingOptions::kNesterov,
                                           TrainingOptions::kAdam),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace partita

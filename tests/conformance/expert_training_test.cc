// Every row of the table of expert strategies trains like the serial model, bit for bit in the ring,
// on models that it is made for: on one node and on several.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/expert/expert_strategies.h"
#include "runtime/backend/backends.h"
#include "tests/conformance/executed_run.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_strategy.h"
#include "tests/testing/ring_equality.h"

namespace partita {
namespace {

constexpr int kSteps = 2;
constexpr int kPairsForOneExecutedExpert = 3;

// Convolutions, pooling, and fully connected layers behind them.
Graph ConvolutionsAndLayers() {
  ModelWriter m("convolutions", DType::kFloat32);
  TensorId y = m.Relu("relu", m.Conv("conv", m.Input({8, 3, 6, 6}), 8));
  y = ModelWriter::Get(m.builder.Add(
      {.name = "pool", .attrs = Pool2d{.kernel = {2, 2}, .stride = {2, 2}}, .inputs = {y}}));
  y = ModelWriter::Get(
      m.builder.Add({.name = "flat", .attrs = Reshape{.shape = {-1, 72}}, .inputs = {y}}));
  y = m.Relu("relu1", m.Linear("fc1", y, 17));
  return m.Finish(m.Linear("fc3", m.Relu("relu2", m.Linear("fc2", y, 16)), 9));
}

std::vector<Graph> Models() {
  std::vector<Graph> models = {ConvolutionsAndLayers()};
  for (const char* name : {"gpt_tiny", "rnnlm_tiny", "nmt_tiny", "mlp_tiny"}) {
    models.push_back(ModelWriter::Get(MakeZooModel(name, 8)));
  }
  return models;
}

// One node of 2, 3, 4 and 8 devices, and two of four.
std::vector<DeviceTopology> Topologies() {
  std::vector<DeviceTopology> topologies;
  for (int devices : {2, 3, 4, 8}) topologies.push_back(VirtualCpuDevices(devices));
  topologies.push_back(ModelWriter::Get(FindMachine("p100-4x4", 8)).topology);
  return topologies;
}

TEST(ExpertTrainingTest, EveryRowEqualsTheSerialModel) {
  std::mt19937_64 random(23);
  const auto backend = ModelWriter::Get(MakeBackend("reference"));
  PlannerOrders orders;
  std::set<std::string> seen;
  int pairs = 0;
  for (const Graph& model : Models()) {
    const Graph graph = WithRingArithmetic(ModelWriter::Get(BuildTrainingGraph(model, {})));
    const SerialRun serial(graph, kSteps, RingValues::kRandom, random);
    for (const DeviceTopology& topology : Topologies()) {
      for (const NamedStrategy& expert : ExpertStarts(graph, topology)) {
        SCOPED_TRACE(expert.name + " of " + graph.name() + " on " +
                     std::to_string(topology.size()));
        const PartitionOptions options{.devices = topology.size()};
        const TaskGraph tasks = ModelWriter::Get(Partition(graph, expert.strategy, options));
        ASSERT_EQ(serial.Compare(tasks, &random), absl::OkStatus());
        seen.insert(expert.name);
        if (++pairs % kPairsForOneExecutedExpert != 0) continue;
        EvaluatedStep step =
            ModelWriter::Get(orders.StepOf(graph, expert.strategy, options, random));
        const auto run = ModelWriter::Get(ExecutedRun::Open(
            graph, std::move(step.tasks), std::move(step.order), backend, nullptr));
        ASSERT_EQ(serial.Compare(*run), absl::OkStatus());
      }
    }
  }
  for (const ExpertRow& row : ExpertStrategies()) {
    EXPECT_TRUE(seen.contains(row.name)) << row.name << " declined everything";
  }
  EXPECT_GE(pairs, 100);
}

}  // namespace
}  // namespace partita

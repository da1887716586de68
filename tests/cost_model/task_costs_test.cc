#include "cost_model/task_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

// Every operator split by sample over all devices; those without samples run on the first.
Strategy BySample(const Graph& graph, int devices) {
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    const ShardingRule& rule = graph.rule(id);
    ParallelConfig& config = strategy.configs[id.index()];
    for (size_t loop = 0; loop < rule.loops.size(); ++loop) {
      const LoopRole role = RoleOf(graph, graph.op(id), static_cast<int>(loop));
      const bool samples = role == LoopRole::kSample || rule.loops[loop].extent == graph.batch();
      if (!samples || rule.loops[loop].extent < devices) continue;
      config.degrees[loop] = devices;
      config.devices.clear();
      for (int d = 0; d < devices; ++d) config.devices.push_back(DeviceId(d));
      break;
    }
  }
  return strategy;
}

class TaskCostsTest : public ::testing::Test {
 protected:
  TaskCostsTest()
      : machine_(std::make_shared<const Machine>(FindMachine("ethernet-4x1g").value())),
        graph_(BuildTrainingGraph(MakeAlexNet(256).value(), {}).value()),
        tasks_(
            Partition(graph_, BySample(graph_, 4),
                      {.devices = 4, .node_of_device = {0, 1, 2, 3}, .algorithm = AlwaysBy("ring")})
                .value()) {}

  std::shared_ptr<const Machine> machine_;
  Graph graph_;
  TaskGraph tasks_;
};

// Seconds on device 0 (of the tasks that run there), computing and communicating.
struct Sums {
  double compute = 0, communication = 0;
};
Sums SumOf(const TaskGraph& tasks, const std::vector<TaskCost>& costs) {
  Sums sums;
  for (const Task& task : tasks.tasks()) {
    if (DevicesOf(task)[0] != DeviceId(0)) continue;
    const double seconds = 1e-9 * static_cast<double>(costs[task.id.index()].time.value());
    (IsCommunication(task) ? sums.communication : sums.compute) += seconds;
  }
  return sums;
}

TEST_F(TaskCostsTest, DataParallelAlexNetCostsWhatItsBytesAndArithmeticCost) {
  const auto model = MakeDefaultCostModel(machine_);
  const std::vector<TaskCost> costs = PriceTasks(tasks_, *model);
  ASSERT_EQ(costs.size(), tasks_.tasks().size());
  EXPECT_THAT(DurationsOf(costs), Each(Ge(Nanos(1))));
  const Sums sums = SumOf(tasks_, costs);
  // 366,605,040 bytes received over 1 Gb/s, besides latencies and the loss.
  EXPECT_THAT(sums.communication, AllOf(Ge(2.9328), Le(2.9328 * 1.02)));
  // 64 samples x 714.2 M multiply-adds, three times less the first layer's input gradient, at 2
  // TFLOP/s and between 50 % and 75 % of that; memory traffic of small operators on top.
  EXPECT_THAT(sums.compute, AllOf(Ge(0.13 / 0.75), Le(0.14 / 0.4)));
}

TEST_F(TaskCostsTest, SourcesAreCounted) {
  const std::vector<TaskCost> roofline = PriceTasks(tasks_, *MakeDefaultCostModel(machine_));
  const auto all = static_cast<int64_t>(tasks_.tasks().size());
  EXPECT_EQ(CountSources(roofline), (SourceCounts{0, 0, all}));
  const std::vector<TaskCost> synthetic = PriceTasks(tasks_, *MakeSyntheticCostModel(machine_));
  int64_t communicating = 0;
  for (const Task& task : tasks_.tasks()) communicating += IsCommunication(task);
  EXPECT_EQ(CountSources(synthetic), (SourceCounts{all - communicating, 0, communicating}));
}

TEST_F(TaskCostsTest, OneTaskCostsAsMuchAsAmongAll) {
  const auto model = MakeSyntheticCostModel(machine_);
  const std::vector<TaskCost> costs = PriceTasks(tasks_, *model);
  for (const Task& task : tasks_.tasks()) {
    EXPECT_EQ(PriceTask(tasks_, task, *model), costs[task.id.index()]);
  }
}

TEST_F(TaskCostsTest, MeasuringEveryKernelLeavesOnlyCommunicationToTheLinks) {
  std::vector<ProfileRecord> records;
  for (const KernelSignature& signature : tasks_.signatures()) {
    records.push_back(RecordOf(signature));
    records.back().samples_ns = {5000, 5100, 4900};
  }
  const auto profile = std::make_shared<const Profile>(DeviceFingerprint{}, records);
  const auto model = MakeDefaultCostModel(machine_, DeviceProfiles(4, profile));
  const std::vector<TaskCost> costs = PriceTasks(tasks_, *model);
  for (const Task& task : tasks_.tasks()) {
    if (!std::holds_alternative<ComputeTask>(task.body)) continue;
    EXPECT_EQ(costs[task.id.index()].source, CostSource::kMeasured);
    EXPECT_EQ(costs[task.id.index()].time, Nanos(5000));
    EXPECT_DOUBLE_EQ(costs[task.id.index()].spread, 0.02);
  }
}

}  // namespace
}  // namespace partita

// Channels placed by hypergraph partitioning: what that moves beside data parallelism.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "graph/training/training_graph.h"
#include "graph/verify/plan_verifier.h"
#include "graph/zoo/models.h"
#include "planner/expert/channel_blocks.h"
#include "planner/expert/expert_strategies.h"
#include "planner/expert/hypergraph/partitioner.h"
#include "tests/planner/step_volume.h"

namespace partita {
namespace {

using testing::HasSubstr;

Graph TrainingOf(const char* model, int64_t batch) {
  return Ok(BuildTrainingGraph(Ok(MakeZooModel(model, batch)), {}));
}

// The most forward multiply-adds of a device, over the mean.
double ImbalanceOf(const Graph& graph, const Strategy& strategy, int devices) {
  std::vector<double> work(static_cast<size_t>(devices), 0);
  double all = 0;
  for (OpId id : graph.anchors()) {
    const Operator& op = graph.op(id);
    for (const Part& part : Ok(PartsOf(graph, op, strategy.configs[id.index()]))) {
      std::vector<TensorType> inputs, outputs;
      for (size_t k = 0; k < op.inputs.size(); ++k) {
        inputs.push_back({DType::kFloat32, part.view.operands[k].box.shape()});
      }
      for (const TensorView& view : part.view.results) {
        outputs.push_back({DType::kFloat32, view.box.shape()});
      }
      const Work done = WorkOf(op.attrs, Pass::Forward(), inputs, outputs);
      work[part.device.index()] += static_cast<double>(done.multiply_adds + done.other);
      all += static_cast<double>(done.multiply_adds + done.other);
    }
  }
  return *std::max_element(work.begin(), work.end()) * devices / all;
}

TEST(HypergraphPlacementTest, AlexNetMovesLittleBesideDataParallelism) {
  const Graph graph = TrainingOf("alexnet", 128);
  for (int devices : {2, 4, 8}) {
    SCOPED_TRACE(devices);
    const DeviceTopology topology = VirtualCpuDevices(devices);
    const Strategy placed = Ok(HypergraphPlacement(graph, topology));
    const int64_t data = BytesReceived(graph, Ok(DataParallel(graph, topology)), devices);
    const int64_t bytes = BytesReceived(graph, placed, devices);
    const double less = 1 - static_cast<double>(bytes) / static_cast<double>(data);
    const double imbalance = ImbalanceOf(graph, placed, devices);
    std::printf(
        "AlexNet, batch 128, %d devices: %.1f MB, data parallelism %.1f MB: %.1f %% less; "
        "imbalance %.3f\n",
        devices, static_cast<double>(bytes) / 1e6, static_cast<double>(data) / 1e6, 100 * less,
        imbalance);
    EXPECT_GE(less, 0.85);
    EXPECT_LE(imbalance, 1.05);
    const Plan plan{
        .model = {.fingerprint = graph.fingerprint()}, .topology = topology, .strategy = placed};
    EXPECT_EQ(VerifyPlan(graph, plan), absl::OkStatus());
  }
}

// What a step sends is the connectivity of the partition: activations forward, gradients back.
TEST(HypergraphPlacementTest, AStepMovesTheConnectivityTwice) {
  const Graph graph = TrainingOf("mlp_tiny", 8);
  for (int devices : {2, 3, 4}) {
    const SearchSpace space(graph, devices);
    const ChannelBlocks blocks(graph, space, 16);
    const PartitionerOptions options{.parts = devices};
    const std::vector<int32_t> parts = PartitionHypergraph(blocks.hypergraph(), options);
    Strategy strategy = SingleDevice(graph, DeviceId(0));
    for (OpId id : graph.anchors()) {
      strategy.configs[id.index()] = blocks.ConfigOf(graph.op(id), parts);
    }
    EXPECT_LE(BytesReceived(graph, strategy, devices),
              4 * (2 * ConnectivityMinusOne(blocks.hypergraph(), parts) + 2))
        << devices;
  }
}

TEST(HypergraphPlacementTest, TooManyDevicesForTheBlocksAreDeclined) {
  const Graph graph = TrainingOf("alexnet", 128);
  const auto strategy = HypergraphPlacement(graph, VirtualCpuDevices(1024));
  EXPECT_EQ(strategy.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(strategy.status().message()), HasSubstr("too large to balance"));
}

}  // namespace
}  // namespace partita

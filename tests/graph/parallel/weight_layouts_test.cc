#include "graph/parallel/weight_layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/training/training_graph.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph NormedPerceptron() {
  ModelWriter m("mlp", DType::kFloat32);
  const TensorId y = m.BatchNorm("bn", m.Linear("fc1", m.Input({4, 6}), 6));
  return ModelWriter::Get(BuildTrainingGraph(m.Finish(m.Linear("fc2", y, 5)), {}));
}

OpId IdOf(const Graph& graph, const std::string& name) {
  for (const Operator& op : graph.ops()) {
    if (op.name == name) return op.id;
  }
  CHECK(false) << name;
  return kNoOp;
}

// Splits one operator's loop over the devices 0, 1, ...
void Split(const Graph& graph, Strategy& strategy, const std::string& name, const std::string& loop,
           int degree) {
  const OpId id = IdOf(graph, name);
  ParallelConfig& config = strategy.configs[id.index()];
  config.degrees[static_cast<size_t>(graph.rule(id).FindLoop(loop))] = degree;
  config.devices.clear();
  for (int d = 0; d < degree; ++d) config.devices.push_back(DeviceId(d));
}

WeightLayouts LayoutsOf(const Graph& graph, const Strategy& strategy, const std::string& weight) {
  EXPECT_TRUE(ValidateStrategy(graph, strategy, 4).ok());
  std::vector<std::vector<Part>> parts(graph.ops().size());
  for (const Operator& op : graph.ops()) {
    if (op.anchor == kNoOp) continue;
    parts[op.id.index()] =
        ModelWriter::Get(PartsOf(graph, op, strategy.configs[op.anchor.index()]));
  }
  const std::vector<std::span<const Part>> spans(parts.begin(), parts.end());
  for (size_t w = 0; w < graph.weights().size(); ++w) {
    if (graph.tensor(graph.weights()[w].tensor).name == weight) {
      return ResolveWeightLayout(graph, strategy, w, spans);
    }
  }
  ADD_FAILURE() << weight;
  return {};
}

PlacedBox Placed(const Box& box, int device) { return {box, DeviceId(device)}; }

TEST(WeightLayoutsTest, ByDefaultEveryDeviceThatUsesAWeightHoldsWhatItUses) {
  const Graph graph = NormedPerceptron();
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  Split(graph, strategy, "fc1", "n", 2);
  Split(graph, strategy, "fc2", "o", 2);
  const Box whole = Box::Full({6, 6});
  EXPECT_THAT(LayoutsOf(graph, strategy, "fc1.weight").parameter,
              ElementsAre(Placed(whole, 0), Placed(whole, 1)));
  EXPECT_THAT(LayoutsOf(graph, strategy, "fc2.weight").parameter,
              ElementsAre(Placed({{0, 2}, {0, 6}}, 0), Placed({{2, 5}, {0, 6}}, 1)));
  EXPECT_THAT(LayoutsOf(graph, strategy, "fc2.bias").update,
              ElementsAre(Placed({{0, 2}}, 0), Placed({{2, 5}}, 1)));
}

TEST(WeightLayoutsTest, ABiasOfASplitSumLivesWithTheFirstSummandOnly) {
  const Graph graph = NormedPerceptron();
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  Split(graph, strategy, "fc2", "i", 2);
  EXPECT_THAT(LayoutsOf(graph, strategy, "fc2.bias").parameter, ElementsAre(Placed({{0, 5}}, 0)));
}

TEST(WeightLayoutsTest, RunningStatisticsLiveWhereTheirSumsAreWanted) {
  const Graph graph = NormedPerceptron();
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  Split(graph, strategy, "bn", "c", 2);
  EXPECT_THAT(LayoutsOf(graph, strategy, "bn.running_mean").parameter,
              ElementsAre(Placed({{0, 3}}, 0), Placed({{3, 6}}, 1)));
}

TEST(WeightLayoutsTest, WhatNobodyUsesLivesOnTheHostsDevice) {
  ModelWriter m("crop", DType::kFloat32);
  const TensorId w = m.Weight("w", {4, 6}, 6);
  const TensorId part = ModelWriter::Get(m.builder.Add(
      {.name = "crop", .attrs = Crop{.begin = {1, 0}, .end = {4, 6}}, .inputs = {w}}));
  const TensorId x = m.Input({3, 6});
  const Graph graph = m.Finish(m.Binary("sum", "add", x, part));
  Strategy strategy = SingleDevice(graph, DeviceId(1));
  strategy.host_device = DeviceId(2);
  EXPECT_THAT(LayoutsOf(graph, strategy, "w").parameter,
              ElementsAre(Placed({{1, 4}, {0, 6}}, 1), Placed({{0, 1}, {0, 6}}, 2)));
}

TEST(WeightLayoutsTest, TheUpdateFollowsAChosenParameterLayout) {
  const Graph graph = NormedPerceptron();
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  const std::vector<PlacedBox> shards = {Placed({{0, 3}}, 1), Placed({{3, 6}}, 2)};
  for (size_t w = 0; w < graph.weights().size(); ++w) {
    if (graph.tensor(graph.weights()[w].tensor).name == "fc1.bias") {
      strategy.weights[w].parameter = shards;
    }
  }
  EXPECT_EQ(LayoutsOf(graph, strategy, "fc1.bias").parameter, shards);
  EXPECT_EQ(LayoutsOf(graph, strategy, "fc1.bias").update, shards);
}

TEST(ValidateStrategyTest, LayoutsCoverEveryElementOnDevicesThatExist) {
  const Graph graph = NormedPerceptron();
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  auto error = [&](const std::vector<PlacedBox>& layout) {
    strategy.weights[0].parameter = layout;
    return std::string(ValidateStrategy(graph, strategy, 4).message());
  };
  EXPECT_EQ(error({Placed({{0, 6}, {0, 6}}, 3)}), "");
  EXPECT_THAT(error({Placed({{0, 6}, {0, 5}}, 3)}), HasSubstr("no device holds [0:6,5:6]"));
  EXPECT_THAT(error({Placed({{0, 6}, {0, 7}}, 3)}), HasSubstr("[0:6,0:7]"));
  EXPECT_THAT(error({Placed({{0, 6}, {0, 6}}, 4)}), HasSubstr("device 4 of 4"));
  EXPECT_THAT(error({Placed({{0, 6}}, 0)}), HasSubstr("fc1.weight"));
  EXPECT_THAT(error({}), HasSubstr("no device holds"));
}

}  // namespace
}  // namespace partita

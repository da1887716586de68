#include "graph/parallel/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/training/training_graph.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

const Operator& OpOf(const Graph& graph, const std::string& name) {
  for (const Operator& op : graph.ops()) {
    if (op.name == name) return op;
  }
  CHECK(false) << name;
  return graph.ops()[0];
}

// matmul loops are n, o, i.
Graph Perceptron() {
  ModelWriter m("mlp", DType::kFloat32);
  const TensorId y = m.Linear("fc", m.Input({4, 6}), 5);
  return ModelWriter::Get(BuildTrainingGraph(m.Finish(y), {}));
}

ParallelConfig Config(const ShardingRule& rule, const std::map<std::string, int32_t>& degrees,
                      int32_t replicas, const std::vector<int>& devices) {
  ParallelConfig config = Unsplit(rule, DeviceId(0));
  for (const auto& [loop, degree] : degrees) {
    config.degrees[static_cast<size_t>(rule.FindLoop(loop))] = degree;
  }
  config.replicas = replicas;
  config.devices.clear();
  for (int device : devices) config.devices.push_back(DeviceId(device));
  return config;
}

std::vector<Part> PartsIn(const Graph& graph, const std::string& name,
                          const std::map<std::string, int32_t>& degrees, int32_t replicas,
                          const std::vector<int>& devices) {
  const Operator& op = OpOf(graph, name);
  return ModelWriter::Get(
      PartsOf(graph, op, Config(graph.rule(op.anchor), degrees, replicas, devices)));
}

TEST(PartsTest, TheReplicaLeadsAndTheLastLoopRunsFastest) {
  const Graph graph = Perceptron();
  const auto parts = PartsIn(graph, "fc", {{"n", 2}, {"i", 2}}, 2, {0, 1, 2, 3, 4, 5, 6, 7});
  ASSERT_EQ(parts.size(), 8u);
  const size_t i = static_cast<size_t>(graph.rule(OpOf(graph, "fc").id).FindLoop("i"));
  EXPECT_EQ(parts[1].device, DeviceId(1));
  EXPECT_EQ(parts[1].view.blocks[0], (Interval{0, 2}));
  EXPECT_EQ(parts[1].view.blocks[i], (Interval{3, 6}));
  EXPECT_EQ(parts[2].view.blocks[0], (Interval{2, 4}));
}

TEST(PartsTest, ReplicasHaveEqualTermsAndSummandsHaveNot) {
  const Graph graph = Perceptron();
  const auto parts = PartsIn(graph, "fc", {{"i", 2}}, 2, {0, 1, 2, 3});
  EXPECT_EQ(parts[0].term, parts[2].term);
  EXPECT_EQ(parts[1].term, parts[3].term);
  EXPECT_NE(parts[0].term, parts[1].term);
}

TEST(PartsTest, EqualTermsOnOneDeviceAreOnePart) {
  const Graph graph = Perceptron();
  EXPECT_EQ(PartsIn(graph, "fc", {{"n", 2}}, 2, {0, 1, 0, 1}).size(), 2u);
  EXPECT_EQ(PartsIn(graph, "fc", {{"n", 2}}, 2, {0, 1, 1, 0}).size(), 4u);
}

TEST(PartsTest, OnlyTheFirstSummandHasABiasGradient) {
  const Graph graph = Perceptron();
  EXPECT_EQ(PartsIn(graph, "fc.d2", {{"i", 3}}, 1, {0, 1, 2}).size(), 1u);
  EXPECT_EQ(PartsIn(graph, "fc.d2", {{"n", 2}, {"i", 2}}, 1, {0, 1, 2, 3}).size(), 2u);
}

TEST(PartsTest, PiecesOfALossTakeItsLoopsByNameAndCopyAlongTheRest) {
  ModelWriter m("norm", DType::kFloat32);
  const TensorId y = m.BatchNorm("bn", m.Conv("conv", m.Input({4, 2, 6, 6}), 4));
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(
      m.Finish(ModelWriter::Get(
          m.builder.Add({.name = "flat", .attrs = Reshape{.shape = {4, -1}}, .inputs = {y}}))),
      {}));
  // Moments are summed over samples and rows of one channel block.
  const auto moments = PartsIn(graph, "bn.moments", {{"n", 2}, {"c", 2}}, 1, {0, 1, 2, 3});
  ASSERT_EQ(moments.size(), 4u);
  EXPECT_EQ(moments[1].view.results[0].box, (Box{{2, 4}}));
  EXPECT_EQ(moments[3].view.results[0].box, (Box{{2, 4}}));
  EXPECT_NE(moments[1].term, moments[3].term);
}

TEST(PartsTest, AnInvalidProductNamesTheOperatorAndTheLoop) {
  ModelWriter m("flat", DType::kFloat32);
  const TensorId y = m.Conv("conv", m.Input({4, 2, 6, 6}), 4);
  const Graph graph = m.Finish(ModelWriter::Get(
      m.builder.Add({.name = "flat", .attrs = Reshape{.shape = {4, -1}}, .inputs = {y}})));
  const Operator& flat = OpOf(graph, "flat");
  const auto parts = PartsOf(graph, flat, Config(graph.rule(flat.id), {{"d2", 2}}, 1, {0, 1}));
  EXPECT_THAT(std::string(parts.status().message()), HasSubstr("'flat'"));
  EXPECT_THAT(std::string(parts.status().message()), HasSubstr("'d2'"));
}

TEST(PartsTest, AnUpdateHasOnePartForEachPieceOfItsLayout) {
  const Graph graph = Perceptron();
  const Operator& update = OpOf(graph, "fc.weight.update");
  const std::vector<PlacedBox> layout = {{{{0, 2}, {0, 6}}, DeviceId(1)},
                                         {{{2, 5}, {0, 6}}, DeviceId(0)},
                                         {{{2, 5}, {0, 6}}, DeviceId(2)}};
  const auto parts = ModelWriter::Get(UpdateParts(graph, update, layout));
  ASSERT_EQ(parts.size(), 3u);
  for (size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(parts[p].device, layout[p].device);
    EXPECT_EQ(parts[p].term, 0);
    for (const TensorView& view : parts[p].view.operands) EXPECT_EQ(view.box, layout[p].box);
    for (const TensorView& view : parts[p].view.results) EXPECT_EQ(view.box, layout[p].box);
  }
}

}  // namespace
}  // namespace partita

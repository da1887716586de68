// What experts for transformers and recurrent models split, and where they place it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/expert/expert_strategies.h"
#include "planner/space/recurrent_layers.h"
#include "tests/planner/step_volume.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

using testing::HasSubstr;

Graph TrainingModel(const char* model, int64_t batch) {
  return Ok(BuildTrainingGraph(Ok(MakeZooModel(model, batch)), {}));
}

// "o=2 on 0,1" of the operator with that name.
std::string ConfigText(const Graph& graph, const Strategy& strategy, const std::string& name) {
  for (OpId id : graph.anchors()) {
    if (graph.op(id).name != name) continue;
    return ToString(graph.rule(id), strategy.configs[id.index()]);
  }
  return "no operator " + name;
}

// The configurations of operators, by name.
void ExpectConfigs(const Graph& graph, const Strategy& strategy,
                   const std::vector<std::pair<std::string, std::string>>& expected) {
  for (const auto& [name, config] : expected) {
    EXPECT_EQ(ConfigText(graph, strategy, name), config) << name;
  }
}

DeviceTopology TwoNodesOfFour() { return Ok(FindMachine("p100-4x4", 8)).topology; }

TEST(OneWeirdTrickTest, RoundsMoveTheBytesOfOnePass) {
  const Graph graph = TrainingModel("alexnet", 64);
  for (int devices : {2, 4, 8}) {
    const DeviceTopology topology = VirtualCpuDevices(devices);
    EXPECT_EQ(BytesReceived(graph, Ok(OneWeirdTrickRounds(graph, topology)), devices),
              BytesReceived(graph, Ok(OneWeirdTrick(graph, topology)), devices));
  }
}

TEST(MegatronTest, SplitsByColumnThenByRow) {
  const Graph graph = TrainingModel("gpt_tiny", 4);
  const Strategy strategy = Ok(Megatron(graph, VirtualCpuDevices(2)));
  const auto config = [&](const char* name) { return ConfigText(graph, strategy, name); };
  for (const char* name : {"layer0.attention.q", "layer0.attention.k", "layer0.attention.v",
                           "layer0.mlp.fc1", "scores"}) {
    EXPECT_EQ(config(name), "o=2 on 0,1") << name;
  }
  for (const char* name : {"layer0.attention.out", "layer0.mlp.fc2"}) {
    EXPECT_EQ(config(name), "i=2 on 0,1") << name;
  }
  for (const char* name : {"layer0.attention.scores", "layer0.attention.values"}) {
    EXPECT_EQ(config(name), "c=2 on 0,1") << name;  // heads
  }
  for (const char* name : {"layer0.ln1", "layer0.ln1.add", "layer0.ln2", "ln"}) {
    EXPECT_EQ(config(name), "x2 on 0,1") << name;
  }
  EXPECT_EQ(config("embedding"), "v=2 on 0,1");
}

TEST(MegatronTest, DeclinesWhatDoesNotDivideOrHasNoPairs) {
  const auto declined = [](const Graph& graph, int devices) {
    const auto strategy = Megatron(graph, VirtualCpuDevices(devices));
    EXPECT_EQ(strategy.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(strategy.status().message());
  };
  EXPECT_THAT(declined(TrainingModel("gpt_tiny", 4), 4), HasSubstr("4 equal parts"));
  EXPECT_THAT(declined(TrainingModel("mlp", 8), 3), HasSubstr("3 equal parts"));
  EXPECT_THAT(declined(TrainingModel("alexnet", 8), 2), HasSubstr("not in products"));
  EXPECT_THAT(declined(TrainingModel("rnnlm_tiny", 8), 2), HasSubstr("recurrent layers"));
}

TEST(DataTensorTest, GroupsLieInsideNodesAndDivideTheHeads) {
  const Graph graph = TrainingModel("gpt_tiny", 8);  // two heads
  const Strategy strategy = Ok(DataTensor(graph, TwoNodesOfFour()));
  EXPECT_EQ(ConfigText(graph, strategy, "layer0.mlp.fc1"), "n=4 o=2 on 0-7");
  EXPECT_EQ(ConfigText(graph, strategy, "layer0.mlp.fc2"), "n=4 i=2 on 0-7");
  EXPECT_EQ(ConfigText(graph, strategy, "layer0.ln1"), "n=4 x2 on 0,2,4,6,1,3,5,7");
}

TEST(DataTensorTest, TakesAllDevicesOfANodeWhereTheyDivideTheModel) {
  const Graph graph = TrainingModel("gpt_125m", 8);  // twelve heads
  const Strategy strategy = Ok(DataTensor(graph, TwoNodesOfFour()));
  EXPECT_EQ(ConfigText(graph, strategy, "layer3.mlp.fc1"), "n=2 o=4 on 0-7");
}

TEST(DataTensorTest, DeclinesABatchOfFewerSamplesThanCopies) {
  const auto strategy = DataTensor(TrainingModel("gpt_tiny", 2), TwoNodesOfFour());
  EXPECT_THAT(std::string(strategy.status().message()), HasSubstr("fewer samples"));
}

TEST(RecurrentLayersTest, AreFoundByTheirForm) {
  const auto layers = [](const char* model) {
    std::set<int> numbers;
    for (int layer : RecurrentLayers(TrainingModel(model, 4))) numbers.insert(layer);
    numbers.erase(-1);
    return numbers.size();
  };
  EXPECT_EQ(layers("rnnlm_tiny"), 2u);
  EXPECT_EQ(layers("rnntc"), 4u);
  EXPECT_EQ(layers("nmt_short"), 4u);  // two each of encoder and decoder
  EXPECT_EQ(layers("gpt_tiny"), 0u);   // its table is read twice, in no loop
  EXPECT_EQ(layers("alexnet"), 0u);
}

// Normalisation takes whole rows of what the head makes; the scores are split by word again.
TEST(MegatronConfigTest, TheHeadOfBertIsComputedByAllDevices) {
  const Graph graph = TrainingModel("bert_tiny", 4);
  const Strategy strategy = Ok(Megatron(graph, VirtualCpuDevices(2)));
  for (const char* whole : {"head", "head.gelu", "head.ln", "layer0.ln1"}) {
    EXPECT_EQ(ConfigText(graph, strategy, whole), "x2 on 0,1") << whole;
  }
  EXPECT_EQ(ConfigText(graph, strategy, "layer1.mlp.fc1"), "o=2 on 0,1");
  EXPECT_EQ(ConfigText(graph, strategy, "layer1.mlp.fc2"), "i=2 on 0,1");
  EXPECT_EQ(ConfigText(graph, strategy, "scores"), "o=2 on 0,1");
}

TEST(RnnPlacementTest, LayersOfOneDepthAreOnOneDeviceOfANode) {
  const Graph graph = TrainingModel("nmt_short", 8);
  const Strategy one_node = Ok(RnnPlacement(graph, VirtualCpuDevices(4)));
  const Strategy two_nodes = Ok(RnnPlacement(graph, TwoNodesOfFour()));
  const auto expect = [&](const char* name, int device) {
    const std::string at = std::to_string(device);
    EXPECT_EQ(ConfigText(graph, one_node, name), "whole on " + at) << name;
    EXPECT_EQ(ConfigText(graph, two_nodes, name), "n=2 on " + at + "," + std::to_string(device + 4))
        << name;
  };
  // Six depths on four devices.
  expect("embedding", 0);
  for (const char* cell : {"encoder.0.0", "encoder.0.4.h", "decoder.0.0.x", "decoder.0.3"}) {
    expect(cell, 0);
  }
  for (const char* cell : {"encoder.1.0", "encoder.1.4.h", "decoder.1.0.x", "decoder.1.3"}) {
    expect(cell, 1);
  }
  for (const char* part : {"attention.score", "attention.context", "attention.combine"}) {
    expect(part, 2);
  }
  expect("fc", 3);
}

TEST(RnnPlacementTest, NeighbouringDepthsShareADeviceWhereThereAreFew) {
  const Graph graph = TrainingModel("rnnlm_tiny", 8);
  ExpectConfigs(graph, Ok(RnnPlacement(graph, VirtualCpuDevices(2))),
                {{"embedding", "whole on 0"},
                 {"lstm.0.1", "whole on 0"},
                 {"lstm.1.1", "whole on 1"},
                 {"fc", "whole on 1"}});
}

TEST(RnnStagesTest, EachLayerIsOnAGroupOfItsOwn) {
  const Graph graph = TrainingModel("rnnlm_tiny", 8);
  const Strategy strategy = Ok(RnnStages(graph, VirtualCpuDevices(4)));
  ExpectConfigs(graph, strategy,
                {{"lstm.0.1.x", "o=2 on 0,1"},
                 {"lstm.0.1.h", "o=2 on 0,1"},
                 {"lstm.0.1", "u=2 on 0,1"},
                 {"lstm.1.0", "u=2 on 2,3"},
                 {"fc", "o=2 on 2,3"},
                 {"loss", "d2=2 on 2,3"}});
  EXPECT_EQ(strategy.host_device, DeviceId(2));
}

TEST(RnnStagesTest, LayersShareADeviceWhereThereAreMore) {
  const Graph graph = TrainingModel("rnntc_tiny", 8);
  ExpectConfigs(graph, Ok(RnnStages(graph, VirtualCpuDevices(2))),
                {{"lstm.0.1", "whole on 0"},
                 {"lstm.1.1", "whole on 0"},
                 {"lstm.2.1", "whole on 1"},
                 {"lstm.3.1", "whole on 1"}});
}

TEST(TensorGridsConfigTest, AxesOfACubeChangePlaces) {
  const Graph graph = TrainingModel("mlp", 64);
  const Strategy strategy = Ok(Tensor3d(graph, VirtualCpuDevices(8)));
  std::vector<std::string> products;
  for (OpId id : graph.anchors()) {
    if (!std::holds_alternative<MatMul>(graph.op(id).attrs)) continue;
    products.push_back(ToString(graph.rule(id), strategy.configs[id.index()]));
  }
  ASSERT_EQ(products.size(), 4u);
  // Places (row, column, sum) of the cube, and (row, sum, column).
  EXPECT_EQ(products[0], "n=2 i=2 o=2 on 0,2,1,3,4,6,5,7");
  EXPECT_EQ(products[1], "n=2 i=2 o=2 on 0-7");
  EXPECT_EQ(products[2], products[0]);
  EXPECT_EQ(products[3], products[1]);
}

}  // namespace
}  // namespace partita

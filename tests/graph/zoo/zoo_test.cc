#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "graph/model/model_summary.h"
#include "graph/onnx/import.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

struct Known {
  const char* name;
  int64_t parameters;
  int64_t macs_per_sample;  // 0: not known from elsewhere
  Shape output;
};

// The table of the reference models; Krizhevsky 2012 and 2014; torchvision's documentation.
const Known kKnown[] = {
    {"alexnet", 61'100'840, 714'188'480, {5, 1000}},
    {"alexnet_owt2014", 61'100'840, 714'188'480, {5, 1000}},
    {"alexnet_caffe2012", 60'965'224, 724'406'816, {5, 1000}},
    {"alexnet_s56", 24'268'808, 0, {5, 200}},
    {"alexnet_s128", 36'040'514, 0, {5, 2}},
    {"alexnet_s56_bn", 24'268'808 + 1152, 0, {5, 200}},
    {"alexnet_s128_bn", 36'040'514 + 1152, 0, {5, 2}},
    {"alexnet_s_tiny", 145'212, 0, {5, 20}},
    {"alexnet_tiny", 4'824, 0, {5, 10}},
    {"bert_large", 335'172'410, 0, {5, 512, 30'522}},
    {"bert_tiny", 1'988, 0, {5, 4, 12}},
    {"gpt", 125'226'240, 0, {5, 2048, 50'257}},
    {"gpt_125m", 125'226'240, 0, {5, 2048, 50'257}},
    {"gpt_1300m", 1'315'723'264, 0, {5, 2048, 50'257}},
    {"gpt_13b", 12'853'386'240, 0, {5, 2048, 50'257}},
    {"gpt_175b", 174'604'259'328, 0, {5, 2048, 50'257}},
    {"gpt_2700m", 2'651'553'280, 0, {5, 2048, 50'257}},
    {"gpt_350m", 355'871'744, 0, {5, 2048, 50'257}},
    {"gpt_6700m", 6'658'404'352, 0, {5, 2048, 50'257}},
    {"gpt_760m", 760'300'032, 0, {5, 2048, 50'257}},
    {"gpt_tiny", 1'016, 0, {5, 4, 12}},
    {"inception_v3", 23'834'568, 5'713'216'096, {5, 1000}},
    {"inception_v3_tiny", 10'616, 0, {5, 10}},
    {"lenet", 37'106, 0, {5, 10}},
    {"mlp", 36'818'954, 36'806'656, {5, 10}},
    {"mlp_tiny", 11'386, 0, {5, 10}},
    {"nmt", 230'739'968, 3'742'957'568, {5, 20, 20'480}},
    {"nmt_short", 230'739'968, 0, {5, 5, 20'480}},
    {"nmt_tiny", 160 + 4 * 544 + 3 * 64 + 180, 0, {5, 3, 20}},
    {"resnet101", 44'549'160, 7'801'405'440, {5, 1000}},
    {"resnet101_tiny", 10'532, 0, {5, 10}},
    {"resnet18", 11'689'512, 1'814'073'344, {5, 1000}},
    {"resnet50", 25'557'032, 4'089'184'256, {5, 1000}},
    {"resnet_tiny", 78'042, 0, {5, 10}},
    {"rnnlm", 108'095'248, 3'470'000'128, {5, 40, 10'000}},
    {"rnnlm_tiny", 160 + 2 * 544 + 180, 0, {5, 3, 20}},
    {"rnntc", 176'197'634, 5'301'604'352, {5, 2}},
    {"rnntc_tiny", 160 + 4 * 544 + 18, 0, {5, 2}},
    {"vit_b_16", 86'566'120, 0, {5, 1000}},
    {"vit_tiny", 2'269, 0, {5, 5}},
    {"vgg11", 132'863'336, 7'609'090'048, {5, 1000}},
    {"vgg16", 138'357'544, 15'470'264'320, {5, 1000}},
};

TEST(ZooTest, EveryModelHasItsKnownSizeAndTrains) {
  ASSERT_EQ(std::size(kKnown), ZooModels().size());
  for (const Known& known : kKnown) {
    SCOPED_TRACE(known.name);
    const auto graph = MakeZooModel(known.name, 5);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->name(), known.name);
    const ModelSummary summary = Summarize(*graph);
    EXPECT_EQ(summary.parameters, known.parameters);
    if (known.macs_per_sample > 0) {
      EXPECT_EQ(summary.macs_per_sample, known.macs_per_sample);
    }
    EXPECT_EQ(summary.output, known.output);
    const auto training = BuildTrainingGraph(*graph, {});
    EXPECT_TRUE(training.ok()) << training.status();
  }
}

// The weights are tied: they stay the same, whatever the steps.
TEST(ZooTest, RecurrentModelsAreUnrolledAsAsked) {
  int unrolled = 0;
  for (const ZooModel& model : ZooModels()) {
    SCOPED_TRACE(model.name);
    const std::string name(model.name);
    if (model.unroll == nullptr) {
      EXPECT_THAT(MakeZooModel(name, 2, {.unroll = 3}).status().message(),
                  HasSubstr("has no steps to unroll"));
      continue;
    }
    ++unrolled;
    const auto whole = MakeZooModel(name, 2), two = MakeZooModel(name, 2, {.unroll = 2});
    const auto three = MakeZooModel(name, 2, {.unroll = 3}),
               four = MakeZooModel(name, 2, {.unroll = 4});
    ASSERT_TRUE(whole.ok() && two.ok() && three.ok() && four.ok());
    EXPECT_EQ(Summarize(*two).parameters, Summarize(*whole).parameters);
    EXPECT_LT(two->ops().size(), three->ops().size());
    EXPECT_EQ(four->ops().size() - three->ops().size(), three->ops().size() - two->ops().size());
    EXPECT_TRUE(BuildTrainingGraph(*two, {}).ok());
    for (int64_t steps : {int64_t{-1}, kMostUnrolled + 1}) {
      EXPECT_THAT(MakeZooModel(name, 2, {.unroll = steps}).status().message(),
                  HasSubstr("wanted 1 to 4096"));
    }
  }
  EXPECT_EQ(unrolled, 7);
  EXPECT_EQ(MakeZooModel("rnnlm", 2, {.unroll = 40})->fingerprint(),
            MakeZooModel("rnnlm", 2)->fingerprint());
  EXPECT_EQ(MakeZooModel("nmt", 2, {.unroll = 20})->fingerprint(),
            MakeZooModel("nmt", 2)->fingerprint());
  EXPECT_EQ(MakeZooModel("nmt_short", 2)->ops().size(),
            MakeZooModel("nmt", 2, {.unroll = 5})->ops().size());
  EXPECT_EQ(Summarize(*MakeZooModel("nmt", 2, {.unroll = 7})).output, (Shape{2, 7, 20'480}));
}

// Brown et al. 2020, table 2.1.
TEST(ZooTest, GptHasTheParametersOfGpt3) {
  const std::map<std::string, double> billions = {{"125m", 0.125}, {"350m", 0.35}, {"760m", 0.76},
                                                  {"1.3b", 1.3},   {"2.7b", 2.7},  {"6.7b", 6.7},
                                                  {"13b", 13},     {"175b", 175}};
  ASSERT_EQ(GptSizeNames().size(), billions.size());
  for (const std::string& size : GptSizeNames()) {
    SCOPED_TRACE(size);
    const auto graph = MakeZooModel("gpt", 1, {.size = size});
    ASSERT_TRUE(graph.ok()) << graph.status();
    const double wanted = billions.at(size) * 1e9;
    EXPECT_NEAR(static_cast<double>(Summarize(*graph).parameters), wanted, 0.02 * wanted);
  }
  EXPECT_EQ(MakeZooModel("gpt", 2)->fingerprint(),
            MakeZooModel("gpt", 2, {.size = "125m"})->fingerprint());
}

// A layer has 12 w^2 + 13 w parameters, the rest (sequence + vocabulary + 2) w.
TEST(ZooTest, GptTakesOtherSizes) {
  const ModelSizes sizes = {
      .layers = 3, .width = 48, .heads = 6, .sequence = 20, .vocabulary = 100};
  const auto graph = MakeZooModel("gpt", 2, sizes);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const ModelSummary summary = Summarize(*graph);
  EXPECT_EQ(summary.output, (Shape{2, 20, 100}));
  EXPECT_EQ(summary.parameters, 3 * (12 * 48 * 48 + 13 * 48) + (20 + 100 + 2) * 48);
  EXPECT_TRUE(BuildTrainingGraph(*graph, {}).ok());
  const auto deeper = MakeZooModel("gpt", 1, {.size = "13b", .layers = 2});
  EXPECT_EQ(Summarize(*deeper).parameters,
            2 * (12 * 5120 * 5120 + 13 * 5120) + (2048 + 50'257 + 2) * 5120);
}

TEST(ZooTest, ErrorsOfSizesSayWhatToTry) {
  const std::pair<ModelSizes, const char*> wrong[] = {
      {{.heads = 7}, "7 heads do not divide a width of 768: try 6 or 8 heads, or a width of 770"},
      {{.width = 8, .heads = 12}, "12 heads do not divide a width of 8: try 8 heads, or a width"},
      {{.layers = -1}, "layers of -1; wanted 1 to 1024"},
      {{.sequence = kMostSequence + 1}, "sequence of 16385; wanted 1 to 16384"},
      {{.vocabulary = 1}, "try 2"},
      {{.size = "1.4b"}, "there is no size '1.4b' of GPT-3; wanted 125m, 350m"},
      {{.unroll = 2}, "'gpt' has no steps to unroll"},
      {{.unroll = 2, .layers = 2}, "'gpt' has no steps to unroll"},
  };
  for (const auto& [sizes, says] : wrong) {
    const auto graph = MakeZooModel("gpt", 1, sizes);
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(graph.status().message(), HasSubstr(says));
  }
  EXPECT_THAT(MakeZooModel("lenet", 1, {.layers = 3}).status().message(),
              HasSubstr("'lenet' has no sizes to choose"));
  EXPECT_THAT(MakeZooModel("gpt_125m", 1, {.layers = 3}).status().message(),
              HasSubstr("models that have them are gpt"));
}

TEST(ZooTest, AlexNetSHasCeilSizes) {
  const std::map<std::string, std::vector<int64_t>> sizes = {
      {"alexnet_s56", {14, 7, 7, 4, 4, 4, 4, 2}}, {"alexnet_s128", {32, 16, 16, 8, 8, 8, 8, 4}}};
  for (const auto& [name, wanted] : sizes) {
    const auto graph = MakeZooModel(name, 1);
    ASSERT_TRUE(graph.ok()) << graph.status();
    std::vector<int64_t> heights;
    for (const Operator& op : graph->ops()) {
      const absl::string_view kind = NameOf(op.attrs);
      if (kind != "conv2d" && kind != "pool2d") continue;
      heights.push_back(graph->tensor(op.outputs[0]).type.shape[2]);
    }
    EXPECT_EQ(heights, wanted);
  }
}

TEST(ZooTest, AlexNetLayersHaveTheirKnownParameters) {
  const auto graph = MakeZooModel("alexnet", 2);
  ASSERT_TRUE(graph.ok());
  std::vector<int64_t> parameters;
  for (const OperatorSummary& op : Summarize(*graph).operators) {
    if (op.parameters > 0) parameters.push_back(op.parameters);
  }
  EXPECT_EQ(parameters, (std::vector<int64_t>{23'296, 307'392, 663'936, 884'992, 590'080,
                                              37'752'832, 16'781'312, 4'097'000}));
}

// Name -> shape, trained or not, and start of every weight.
std::map<std::string, std::string> Weights(const Graph& graph) {
  std::map<std::string, std::string> weights;
  for (const Weight& weight : graph.weights()) {
    const Tensor& tensor = graph.tensor(weight.tensor);
    weights[tensor.name] = ToString(tensor.type) + (weight.trainable ? " trained " : " frozen ") +
                           std::to_string(weight.initializer.fan_in) + " " +
                           std::to_string(weight.initializer.value);
  }
  return weights;
}

TEST(ZooTest, WeightsAreThoseOfTheExportedModels) {
  const std::map<std::string, std::string> files = {
      {"alexnet", "models/alexnet.onnx"},
      {"vgg11", "models/vgg11.onnx"},
      {"resnet50", "models/resnet50.onnx"},
      {"inception_v3", "models/inception_v3.onnx"},
      {"mlp", "models/mlp.onnx"},
      {"lenet", "oracle/lenet/model.onnx"},
      {"mlp_tiny", "oracle/mlp/model.onnx"},
      {"alexnet_s_tiny", "oracle/alexnet_s_tiny/model.onnx"},
      {"resnet_tiny", "oracle/resnet_tiny/model.onnx"},
  };
  for (const auto& [name, file] : files) {
    SCOPED_TRACE(name);
    const auto zoo = MakeZooModel(name, 3);
    const auto imported = ImportOnnx(std::string(PARTITA_TEST_DATA "/") + file, {.batch = 3});
    ASSERT_TRUE(zoo.ok() && imported.ok()) << imported.status();
    EXPECT_EQ(Weights(*zoo), Weights(imported->graph));
    EXPECT_EQ(Summarize(*zoo).macs_per_sample, Summarize(imported->graph).macs_per_sample);
  }
}

TEST(ZooTest, AnUnknownNameListsTheKnownOnes) {
  const auto graph = MakeZooModel("alexnett", 1);
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kNotFound);
  for (const ZooModel& model : ZooModels()) {
    EXPECT_THAT(graph.status().message(), HasSubstr(std::string(model.name)));
    EXPECT_FALSE(model.description.empty());
  }
  EXPECT_EQ(MakeZooModel("lenet", 0).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace partita

#include "graph/onnx/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_replace.h"
#include "graph/model/model_summary.h"
#include "graph/support/file.h"
#include "graph/training/training_graph.h"

namespace partita {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ModelPath(const std::string& name) { return PARTITA_TEST_DATA "/models/" + name; }
std::string OraclePath(const std::string& name) {
  return PARTITA_TEST_DATA "/oracle/" + name + "/model.onnx";
}

struct Known {
  const char* file;
  int64_t opset, parameters, macs_per_sample;
  int nodes;
};

// From tests/data/models/index.json.
constexpr Known kKnown[] = {
    {"alexnet.onnx", 18, 61100840, 714188480, 27},
    {"alexnet_torchscript.onnx", 17, 61100840, 714188480, 26},
    {"vgg11.onnx", 18, 132863336, 7609090048, 35},
    {"resnet50.onnx", 17, 25557032, 4089184256, 175},
    {"resnet50_dynamo.onnx", 18, 25557032, 4089184256, 447},
    {"inception_v3.onnx", 17, 23834568, 5713216096, 312},
    {"mlp.onnx", 18, 36818954, 36806656, 7},
};

class KnownModelTest : public testing::TestWithParam<Known> {};

TEST_P(KnownModelTest, HasTheParametersAndMultiplyAddsOfItsIndex) {
  const auto model = ImportOnnx(ModelPath(GetParam().file));
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelSummary summary = Summarize(model->graph);
  EXPECT_EQ(summary.parameters, GetParam().parameters);
  EXPECT_EQ(summary.macs_per_sample, GetParam().macs_per_sample);
  EXPECT_EQ(summary.batch, 64);
  EXPECT_EQ(model->opset, GetParam().opset);
  int nodes = 0;
  for (const auto& [op, count] : model->operators) nodes += count;
  EXPECT_EQ(nodes, GetParam().nodes);
  EXPECT_THAT(model->notes, Contains(HasSubstr("side file is absent")));
}

TEST_P(KnownModelTest, TrainsAfterReBatching) {
  const auto own = ImportOnnx(ModelPath(GetParam().file));
  ASSERT_TRUE(own.ok()) << own.status();
  const Shape shape = own->graph.WholeType(TensorRole::kLogits).shape;
  for (int64_t batch : {7, 32, 1, 256}) {
    const auto model = ImportOnnx(ModelPath(GetParam().file), {.batch = batch});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->graph.batch(), batch);
    EXPECT_EQ(model->graph.WholeType(TensorRole::kLogits).shape, (Shape{batch, shape[1]}));
    const ModelSummary summary = Summarize(model->graph);
    EXPECT_EQ(summary.parameters, GetParam().parameters);
    EXPECT_EQ(summary.macs_per_sample, GetParam().macs_per_sample);
    EXPECT_EQ(model->graph.ops().size(), own->graph.ops().size());
    const auto training = BuildTrainingGraph(model->graph, {});
    EXPECT_TRUE(training.ok()) << training.status();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, KnownModelTest, testing::ValuesIn(kKnown), [](const auto& info) {
  const std::string file = info.param.file;
  return file.substr(0, file.find('.'));
});

TEST(ImportOnnxTest, ListsAllUnsupportedOperatorsAtOnce) {
  for (const char* file : {"lstm_lm.onnx", "lstm_lm_optimized.onnx"}) {
    const auto bytes = ReadFile(ModelPath(file), int64_t{1} << 20);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto model = ImportOnnxBytes(absl::StrReplaceAll(*bytes, {{"LSTM", "LSTN"}}), file);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    const std::vector<std::string> lines = UnsupportedOperators(model.status());
    EXPECT_THAT(lines, Contains(StartsWith("LSTN '")).Times(2));
    EXPECT_THAT(lines, Each(HasSubstr("(opset 18)")));
    EXPECT_THAT(model.status().message(), HasSubstr("\n  LSTN, 2 nodes: first LSTN '"));
  }
}

TEST(ImportOnnxTest, TakesTransformers) {
  // The exporter's optimizer stores equal values once.
  const std::map<std::string, int64_t> parameters = {
      {"transformer_encoder.onnx", 6817768}, {"transformer_encoder_optimized.onnx", 6813161}};
  for (const auto& [file, wanted] : parameters) {
    const auto model = ImportOnnx(ModelPath(file));
    ASSERT_TRUE(model.ok()) << model.status();
    const ModelSummary summary = Summarize(model->graph);
    EXPECT_EQ(summary.parameters, wanted);
    EXPECT_EQ(summary.macs_per_sample, 839372800);
    EXPECT_TRUE(BuildTrainingGraph(model->graph, {}).ok());
  }
}

TEST(ImportOnnxTest, ReadsEmbeddedWeightsByTheirNames) {
  const auto model = ImportOnnx(OraclePath("mlp"));
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->graph.weights().size(), 6u);
  const Weight& weight = model->graph.weights()[0];
  EXPECT_EQ(model->graph.tensor(weight.tensor).name, "0.weight");
  ASSERT_NE(weight.values, nullptr);
  EXPECT_EQ(weight.values->size(), 96u * 64u);
  EXPECT_EQ(weight.initializer.kind, Initializer::Kind::kUniformFanIn);
  EXPECT_EQ(weight.initializer.fan_in, 64);
  EXPECT_EQ(Summarize(model->graph).parameters, 11386);
}

TEST(ImportOnnxTest, TakesBatchNormInInferenceFormAsInTraining) {
  const auto model = ImportOnnx(ModelPath("resnet50_dynamo.onnx"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->notes, Contains(HasSubstr("has inference form; trained with the statistics")));
  EXPECT_THAT(model->notes, Contains(HasSubstr("its bias is a constant 0; left out")));
  int normalize = 0, moments = 0, frozen = 0;
  for (const Operator& op : model->graph.ops()) {
    normalize += NameOf(op.attrs) == "batch_normalize";
    moments += NameOf(op.attrs) == "batch_moments";
  }
  EXPECT_EQ(normalize, 53);
  EXPECT_EQ(moments, 53);

  const auto kept = ImportOnnx(ModelPath("resnet50_dynamo.onnx"), {.freeze_bn = true});
  ASSERT_TRUE(kept.ok()) << kept.status();
  for (const Operator& op : kept->graph.ops()) {
    frozen += NameOf(op.attrs) == "affine_normalize";
    EXPECT_NE(NameOf(op.attrs), "batch_moments");
  }
  EXPECT_EQ(frozen, 53);
}

TEST(ImportOnnxTest, GivesBothExportersTheSameResNet) {
  const auto script = ImportOnnx(ModelPath("resnet50.onnx"));
  const auto dynamo = ImportOnnx(ModelPath("resnet50_dynamo.onnx"));
  ASSERT_TRUE(script.ok() && dynamo.ok());
  ASSERT_EQ(script->graph.ops().size(), dynamo->graph.ops().size());
  for (size_t i = 0; i < script->graph.ops().size(); ++i) {
    EXPECT_EQ(ToString(script->graph.ops()[i].attrs), ToString(dynamo->graph.ops()[i].attrs));
  }
}

TEST(ImportOnnxTest, NamesOperatorsAfterTheirWeightsWhateverTheExporter) {
  for (const char* file : {"alexnet.onnx", "vgg11.onnx"}) {
    const auto model = ImportOnnx(ModelPath(file));
    ASSERT_TRUE(model.ok()) << model.status();
    for (const Operator& op : model->graph.ops()) {
      if (op.inputs.size() < 2) continue;
      EXPECT_EQ(op.name + ".weight", model->graph.tensor(op.inputs[1]).name);
    }
  }
  const auto names = [](const std::string& file) {
    std::vector<std::string> names;
    const auto model = ImportOnnx(ModelPath(file));
    for (const Operator& op : model->graph.ops()) {
      if (NameOf(op.attrs) != "binary" && op.inputs.size() > 1) names.push_back(op.name);
    }
    return names;
  };
  EXPECT_EQ(names("resnet50.onnx"), names("resnet50_dynamo.onnx"));
}

TEST(ImportOnnxTest, AbsentFilesAndFoldersAreNamed) {
  EXPECT_EQ(ImportOnnx("/nowhere/net.onnx").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ImportOnnx("/tmp").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(OnnxOperatorTableTest, DescribesEveryOperator) {
  for (const auto& [name, description] : OnnxOperatorTable()) EXPECT_FALSE(description.empty());
  EXPECT_GT(OnnxOperatorTable().size(), 30u);
}

}  // namespace
}  // namespace partita

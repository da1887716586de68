#include "graph/onnx/folded_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/onnx/import.h"
#include "graph/training/training_graph.h"
#include "tests/graph/onnx/onnx_builder.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kLooksFolded[] = "looks as if batch normalisation had been folded in";

// One network, exported by PyTorch 2.15 in several ways; see generate.py there.
ImportedModel Exported(const std::string& name) {
  auto model = ImportOnnx(PARTITA_TEST_DATA "/batch_norm/" + name + ".onnx");
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

int Normalisations(const ImportedModel& model) {
  int count = 0;
  for (const Operator& op : model.graph.ops()) count += NameOf(op.attrs) == "batch_normalize";
  return count;
}

TEST(FoldedBatchNormTest, IsFoundInWhatPyTorchExportsByDefault) {
  const ImportedModel model = Exported("default");
  EXPECT_EQ(Normalisations(model), 0);
  EXPECT_THAT(model.folded_batch_norms, ElementsAre("conv1", "conv2", "hidden"));
  EXPECT_THAT(model.notes, Each(Not(HasSubstr(kLooksFolded))));
}

TEST(FoldedBatchNormTest, IsNotFoundWhereItIsKept) {
  for (const char* name : {"unoptimized", "torchscript_training"}) {
    SCOPED_TRACE(name);
    const ImportedModel model = Exported(name);
    EXPECT_EQ(Normalisations(model), 3);
    EXPECT_THAT(model.folded_batch_norms, IsEmpty());
    EXPECT_THAT(model.notes, Each(Not(HasSubstr(kLooksFolded))));
  }
  for (const char* name : {"alexnet", "alexnet_torchscript", "vgg11", "resnet50", "resnet50_dynamo",
                           "inception_v3", "mlp"}) {
    const auto model = ImportOnnx(PARTITA_TEST_DATA "/models/" + std::string(name) + ".onnx");
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT(model->folded_batch_norms, IsEmpty()) << name;
    EXPECT_THAT(model->notes, Each(Not(HasSubstr(kLooksFolded)))) << name;
  }
}

TEST(FoldedBatchNormTest, IsANoteWhereOnlyNamesShowIt) {
  const ImportedModel model = Exported("torchscript_evaluation");
  EXPECT_EQ(Normalisations(model), 1);
  EXPECT_THAT(model.folded_batch_norms, IsEmpty());
  EXPECT_THAT(model.notes,
              Contains(AllOf(HasSubstr("layer '/conv1/Conv' and 1 more"), HasSubstr("onnx::Conv_"),
                             HasSubstr(kLooksFolded), HasSubstr("in training form"))));
  // That exporter stores equal values once: 1 for scale and variance, 0 for bias and mean.
  EXPECT_THAT(model.notes, Contains(HasSubstr("'bn2.weight' is stored once for a trained weight")));
  EXPECT_TRUE(BuildTrainingGraph(model.graph, {}).ok());
}

// A convolution [4,3,8,8] -> [4,2,6,6] and a linear layer to 5 scores.
OnnxBuilder ConvolutionAndLinear(const std::string& weight) {
  OnnxBuilder model({4, 3, 8, 8});
  model.Weight(weight, {2, 3, 3, 3});
  model.Weight("b", {2});
  model.Weight("last.weight", {5, 72});
  model.Node("Conv", {"x", weight, "b"}, {"c"}, "first");
  model.Node("Flatten", {"c"}, {"f"});
  auto& gemm = model.Node("Gemm", {"f", "last.weight"}, {"y"}, "last");
  OnnxBuilder::Int(gemm, "transB", 1);
  return model;
}

ImportedModel WithMetadata(const std::string& key, const std::string& value) {
  OnnxBuilder model = ConvolutionAndLinear("w");
  auto& entry = *model.graph().mutable_node(0)->add_metadata_props();
  entry.set_key(key);
  entry.set_value(value);
  auto imported = ImportOnnxBytes(model.bytes(), "test.onnx");
  EXPECT_TRUE(imported.ok()) << imported.status();
  return *std::move(imported);
}

TEST(FoldedBatchNormTest, IsKnownByTheRuleOrTheModuleThatANodeNames) {
  const std::string rule = "pkg.onnxscript.rewriter.rule_name";
  for (const char* value :
       {"FuseBatchNormIntoConv", "RemoveOptionalBiasFromConv, FuseBatchNormIntoConv",
        "fuse_batch_norm_into_conv"}) {
    EXPECT_THAT(WithMetadata(rule, value).folded_batch_norms, ElementsAre("first")) << value;
  }
  EXPECT_THAT(WithMetadata("namespace", ": Net/bn1: torch.nn.modules.batchnorm.BatchNorm2d/bn: f")
                  .folded_batch_norms,
              ElementsAre("first"));
  EXPECT_THAT(WithMetadata(rule, "RemoveOptionalBiasFromConv").folded_batch_norms, IsEmpty());
  // A convolution inside a module of the user's own.
  EXPECT_THAT(WithMetadata("namespace", ": ConvBatchNorm/conv: torch.nn.modules.conv.Conv2d/f")
                  .folded_batch_norms,
              IsEmpty());
}

TEST(FoldedBatchNormTest, OnlyLayersThatTheOutputNeedsCount) {
  OnnxBuilder model = ConvolutionAndLinear("w");
  model.Node("Conv", {"x", "w"}, {"unused"}, "dead");
  auto& entry = *model.graph().mutable_node(3)->add_metadata_props();
  entry.set_key("pkg.onnxscript.rewriter.rule_name");
  entry.set_value("FuseBatchNormIntoConv");
  const auto imported = ImportOnnxBytes(model.bytes(), "test.onnx");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->folded_batch_norms, IsEmpty());
}

TEST(FoldedBatchNormTest, NamesSuggestItOnlyAsWords) {
  for (const auto& [name, suggests] :
       {std::pair("ConvBnFusion_W_conv1.weight", true), std::pair("layer1.bn1.fused", true),
        std::pair("model/batch_normalization/Conv", true), std::pair("bn.weight", true),
        std::pair("dbn.weight", false), std::pair("conv1.weight", false),
        std::pair("bnet.weight", false)}) {
    const auto imported = ImportOnnxBytes(ConvolutionAndLinear(name).bytes(), "test.onnx");
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(testing::Matches(Contains(HasSubstr(kLooksFolded)))(imported->notes), suggests)
        << name;
    EXPECT_THAT(imported->folded_batch_norms, IsEmpty());
  }
}

}  // namespace
}  // namespace partita

#include "graph/model/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "graph/model/model_summary.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

TEST(LoadModelTest, TellsFilesFromNames) {
  EXPECT_TRUE(IsModelFile("net.onnx"));
  EXPECT_TRUE(IsModelFile("./net"));
  EXPECT_TRUE(IsModelFile("a/b.textproto"));
  EXPECT_FALSE(IsModelFile("alexnet"));
  EXPECT_FALSE(IsModelFile("resnet50"));
}

TEST(LoadModelTest, LoadsFilesAndNames) {
  const auto zoo = LoadModel("alexnet", {.batch = 16});
  ASSERT_TRUE(zoo.ok()) << zoo.status();
  EXPECT_EQ(zoo->graph.batch(), 16);
  EXPECT_EQ(LoadModel("lenet")->graph.batch(), kDefaultBatch);
  const auto file = LoadModel(PARTITA_TEST_DATA "/models/alexnet.onnx", {.batch = 16});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Summarize(file->graph).parameters, Summarize(zoo->graph).parameters);
  EXPECT_NE(file->source_fingerprint, 0u);
}

TEST(LoadModelTest, OnlyModelsOfTheZooTakeSizes) {
  const auto model = LoadModel("rnnlm_tiny", {.sizes = {.unroll = 2}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(Summarize(model->graph).output, (Shape{kDefaultBatch, 2, 20}));
  const auto file = LoadModel(PARTITA_TEST_DATA "/models/alexnet.onnx", {.sizes = {.unroll = 2}});
  EXPECT_THAT(file.status().message(), HasSubstr("only models of the zoo take others"));
}

TEST(LoadModelTest, FreezesBatchNormWhateverTheSource) {
  for (const char* name : {"resnet_tiny", PARTITA_TEST_DATA "/oracle/resnet_tiny/model.onnx"}) {
    const auto model = LoadModel(name, {.freeze_bn = true});
    ASSERT_TRUE(model.ok()) << model.status();
    int frozen = 0;
    for (const Operator& op : model->graph.ops()) {
      frozen += NameOf(op.attrs) == "affine_normalize";
      EXPECT_EQ(op.anchor_weight, kNoTensor);
      EXPECT_NE(NameOf(op.attrs), "batch_moments");
    }
    EXPECT_EQ(frozen, 9);
    EXPECT_EQ(Summarize(model->graph).parameters, 78042);
  }
}

TEST(SummaryTest, CountsEachOperatorAndTheSums) {
  const auto model = LoadModel("lenet", {.batch = 4});
  ASSERT_TRUE(model.ok());
  const ModelSummary summary = Summarize(model->graph);
  int64_t parameters = 0, macs = 0;
  for (const OperatorSummary& op : summary.operators) {
    parameters += op.parameters;
    macs += op.multiply_adds;
  }
  EXPECT_EQ(parameters, summary.parameters);
  EXPECT_EQ(macs, 4 * summary.macs_per_sample);
  EXPECT_EQ(summary.operators[0].weight_bytes, (6 * 25 + 6) * 4);
  EXPECT_EQ(summary.operators[0].result_bytes, 4 * 6 * 28 * 28 * 4);
  const std::string text = SummaryText(summary);
  EXPECT_THAT(text, HasSubstr("37.1 k parameters (37106)"));
  EXPECT_EQ(summary.operators[0].name, "conv1");
  EXPECT_THAT(text, HasSubstr(absl::StrCat(summary.operators.size(), " operators")));
  EXPECT_EQ(CountText(37106), "37.1 k");
}

TEST(LoadModelTest, AbsentAndUnknownAreNotFound) {
  EXPECT_EQ(LoadModel("no/such.onnx").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadModel("such.textproto").status().code(), absl::StatusCode::kNotFound);
  const auto unknown = LoadModel("alexnex");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(unknown.status().message(), HasSubstr("alexnet_owt2014"));
  EXPECT_EQ(LoadModel(PARTITA_TEST_DATA "/models/index.json").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace partita

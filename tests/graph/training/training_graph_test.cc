#include "graph/training/training_graph.h"

#include <set>

#include "gmock/gmock.h"
#include "graph/graph_text.h"
#include "graph/support/file.h"
#include "graph/training/evaluation_graph.h"
#include "graph/zoo/models.h"
#include "gtest/gtest.h"
#include "tests/testing/graph_lookup.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Graph Training(const Graph& model, TrainingOptions options = {}) {
  return ModelWriter::Get(BuildTrainingGraph(model, options));
}

TEST(TrainingGraphTest, TextOfAPerceptron) {
  ModelWriter m("mlp", DType::kFloat32);
  const TensorId y = m.Relu("relu", m.Linear("fc1", m.Input({4, 3}), 2));
  const Graph graph = Training(m.Finish(m.Linear("fc2", y, 5)));
  const auto golden = ReadFile(PARTITA_SOURCE_DIR "/tests/golden/training_graph_mlp.txt", 1 << 20);
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_EQ(GraphText(graph), *golden);
}

TEST(TrainingGraphTest, AResidualTensorHasOneGradientWithTwoProducers) {
  ModelWriter m("residual", DType::kFloat32);
  const TensorId x = m.Linear("fc0", m.Input({4, 3}), 6);
  const TensorId y = m.Binary("sum", "add", x, m.Linear("fc1", x, 6));
  const Graph graph = Training(m.Finish(m.Linear("fc2", y, 5)));
  EXPECT_EQ(graph.producers(IdOf(graph, "d:fc0")).size(), 2u);
  EXPECT_EQ(graph.producers(IdOf(graph, "d:sum")).size(), 1u);
}

TEST(TrainingGraphTest, TheInputHasNoGradient) {
  ModelWriter m("mlp", DType::kFloat32);
  const Graph graph = Training(m.Finish(m.Linear("fc", m.Input({4, 3}), 5)));
  EXPECT_THAT(GraphText(graph), Not(HasSubstr("d:x")));
  EXPECT_THAT(GraphText(graph), Not(HasSubstr("fc.d0")));
}

TEST(TrainingGraphTest, BatchNormSumsAreTheGradientsOfScaleAndShift) {
  ModelWriter m("norm", DType::kFloat32);
  const TensorId y = m.BatchNorm("bn", m.Linear("fc0", m.Input({4, 3}), 6));
  const Graph graph = Training(m.Finish(m.Linear("fc", y, 5)));
  const Operator& moments = OpOf(graph, "bn.grad_moments");
  const Operator& apply = OpOf(graph, "bn.grad_apply");
  EXPECT_EQ(moments.outputs[0], IdOf(graph, "d:bn.weight"));
  EXPECT_EQ(moments.outputs[1], IdOf(graph, "d:bn.bias"));
  EXPECT_EQ(apply.inputs[5], moments.outputs[1]);
  EXPECT_EQ(apply.inputs[6], moments.outputs[0]);
  EXPECT_EQ(moments.anchor, OpOf(graph, "bn").id);
  EXPECT_EQ(OpOf(graph, "bn.moments").anchor, OpOf(graph, "bn").id);
  EXPECT_EQ(OpOf(graph, "bn.running_mean").anchor_weight, IdOf(graph, "bn.running_mean"));
}

TEST(TrainingGraphTest, FrozenBatchNormHasNoUpdatesOfStatistics) {
  ModelWriter m("norm", DType::kFloat32);
  const TensorId y = m.BatchNorm("bn", m.Linear("fc0", m.Input({4, 3}), 6), /*frozen=*/true);
  const Graph graph = Training(m.Finish(m.Linear("fc", y, 5)));
  EXPECT_TRUE(graph.consumers(IdOf(graph, "bn.running_mean")).size() > 0);
  for (const Operator& op : graph.ops()) {
    EXPECT_NE(op.anchor_weight, IdOf(graph, "bn.running_mean"));
  }
}

TEST(TrainingGraphTest, ALossOnSoftmaxTakesWhatEntersTheSoftmax) {
  for (bool logarithm : {false, true}) {
    ModelWriter m("softmax", DType::kFloat32);
    const TensorId logits = m.Linear("fc", m.Input({4, 3}), 5);
    const TensorId y = ModelWriter::Get(logarithm ? AddLogSoftmax(m.builder, "y", logits)
                                                  : AddSoftmax(m.builder, "y", logits));
    const Graph graph = Training(m.Finish(y));
    EXPECT_EQ(OpOf(graph, "loss").inputs[0], IdOf(graph, "fc"));
    EXPECT_EQ(graph.only(TensorRole::kLogits), IdOf(graph, "fc"));
    EXPECT_THAT(GraphText(graph), Not(HasSubstr("softmax_apply")));
  }
}

TEST(TrainingGraphTest, EveryPieceOfTheLossIsAnchoredToIt) {
  ModelWriter m("mlp", DType::kFloat32);
  const Graph graph = Training(m.Finish(m.Linear("fc", m.Input({4, 3}), 5)));
  const OpId loss = OpOf(graph, "loss").id;
  for (const char* piece : {"loss.max", "loss.sum", "loss.correct", "loss.grad"}) {
    EXPECT_EQ(OpOf(graph, piece).anchor, loss) << piece;
  }
  EXPECT_EQ(graph.only(TensorRole::kLoss), OpOf(graph, "loss").outputs[0]);
  EXPECT_EQ(graph.only(TensorRole::kCorrect), OpOf(graph, "loss.correct").outputs[0]);
}

TEST(TrainingGraphTest, WeightsThatDoNotLeadToTheLossAreLeftAlone) {
  ModelWriter m("unused", DType::kFloat32);
  m.Weight("unused", {3}, 1);
  const TensorId x = m.Input({4, 3});
  m.Linear("dead", x, 2);
  const Graph graph = Training(m.Finish(m.Linear("fc", x, 5)));
  EXPECT_THAT(GraphText(graph), Not(HasSubstr("unused.update")));
  EXPECT_THAT(GraphText(graph), Not(HasSubstr("dead = ")));
  EXPECT_THAT(GraphText(graph), HasSubstr("fc.bias.update"));
}

TEST(TrainingGraphTest, ModelsWithNothingToTrainAreRefused) {
  ModelWriter m("fixed", DType::kFloat32);
  const TensorId y = m.Relu("relu", m.Input({4, 3}));
  const auto graph = BuildTrainingGraph(m.Finish(y), {});
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("nothing to train"));
}

TEST(TrainingGraphTest, LogitsOfRankOneAreRefused) {
  ModelWriter m("flat", DType::kFloat32);
  const TensorId y = m.Binary("y", "mul", m.Input({4}), m.Weight("w", {4}, 1));
  EXPECT_EQ(BuildTrainingGraph(m.Finish(y), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TrainingGraphTest, TrainingATrainingGraphIsRefused) {
  ModelWriter m("mlp", DType::kFloat32);
  const Graph graph = Training(m.Finish(m.Linear("fc", m.Input({4, 3}), 5)));
  EXPECT_EQ(BuildTrainingGraph(graph, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BuildEvaluationGraph(graph).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EvaluationGraphTest, HasNoDropoutNoUpdatesAndFixedStatistics) {
  ModelWriter m("norm", DType::kFloat32);
  TensorId y = m.BatchNorm("bn", m.Linear("fc0", m.Input({4, 3}), 6));
  y = ModelWriter::Get(AddDropout(m.builder, "dropout", y, 0.5));
  y = m.Linear("fc", y, 5);
  y = ModelWriter::Get(AddSoftmax(m.builder, "softmax", y));
  const Graph graph = ModelWriter::Get(BuildEvaluationGraph(m.Finish(y)));
  std::vector<std::string> names;
  for (const Operator& op : graph.ops()) names.push_back(op.name);
  EXPECT_THAT(names, ::testing::ElementsAre("fc0", "bn", "fc", "loss.max", "loss.sum", "loss",
                                            "loss.correct"));
  EXPECT_TRUE(std::holds_alternative<AffineNormalize>(OpOf(graph, "bn").attrs));
  EXPECT_EQ(graph.only(TensorRole::kLogits), IdOf(graph, "fc"));
  EXPECT_EQ(graph.only(TensorRole::kLoss), IdOf(graph, "loss"));
}

TEST(EvaluationGraphTest, BatchNormWithoutRunningStatisticsTakesThoseOfTheBatch) {
  ModelWriter m("norm", DType::kFloat32);
  const TensorId x = m.Linear("fc0", m.Input({4, 3}), 6);
  const TensorId y = ModelWriter::Get(AddBatchNorm(
      m.builder,
      {.name = "bn", .x = x, .gamma = m.Weight("g", {6}, 1), .beta = m.Weight("b", {6}, 1)}));
  const Graph graph = ModelWriter::Get(BuildEvaluationGraph(m.Finish(m.Linear("fc", y, 5))));
  EXPECT_TRUE(std::holds_alternative<BatchNormalize>(OpOf(graph, "bn").attrs));
  EXPECT_EQ(OpOf(graph, "bn.moments").anchor, OpOf(graph, "bn").id);
}

TEST(TrainingGraphTest, NextValuesAreNoOperandsAndNoResult) {
  ModelWriter m("next", DType::kFloat32);
  const TensorId x = m.Input({4, 3});
  const TensorId w = m.Weight("w", {3}, 1);
  const TensorId sums = m.builder
                            .op(ModelWriter::Get(m.builder.AddOp(
                                {.name = "m", .attrs = BatchMoments{}, .inputs = {x}})))
                            .outputs[0];
  const OpId update = ModelWriter::Get(m.builder.AddUpdate(
      {.name = "u", .attrs = RunningMean{}, .inputs = {w, sums}, .persistent = {w}}));
  const TensorId next = m.builder.op(update).outputs[0];
  EXPECT_EQ(m.builder.Add({.name = "y", .attrs = Relu{}, .inputs = {next}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      m.builder
          .AddUpdate({.name = "v", .attrs = RunningMean{}, .inputs = {w, sums}, .persistent = {x}})
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
  const Graph model = m.Finish(next);
  EXPECT_EQ(BuildTrainingGraph(model, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BuildEvaluationGraph(model).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TrainingGraphTest, NamesThatTheModelUsesAreLeftToIt) {
  ModelWriter m("names", DType::kFloat32);
  const TensorId x = m.Linear("labels", m.Input({4, 3}), 6);
  const Graph graph = Training(m.Finish(m.Linear("loss", x, 5)));
  EXPECT_EQ(graph.tensor(graph.only(TensorRole::kLabels)).name, "labels_2");
  EXPECT_EQ(graph.tensor(graph.only(TensorRole::kLoss)).name, "loss_2");
  EXPECT_EQ(graph.tensor(graph.only(TensorRole::kCorrect)).name, "loss_2.correct");
}

// Though the gradient of the lookup reads the numbers beside another tensor than the table.
TEST(TrainingGraphTest, WordsAreThoseOfTheTable) {
  for (const char* name : {"rnnlm_tiny", "gpt_tiny"}) {
    const Graph forward = ModelWriter::Get(MakeZooModel(name, 2));
    const Graph graph = Training(forward);
    const int64_t words = forward.WholeType(TensorRole::kLogits).shape.back();
    for (const Graph* one : {&forward, &graph}) {
      EXPECT_EQ(one->IndexLimitOf(one->only(TensorRole::kSamples)), words) << name;
    }
    EXPECT_EQ(graph.IndexLimitOf(graph.only(TensorRole::kLabels)), words) << name;
  }
}

TEST(TrainingGraphTest, EveryWeightOfEveryZooModelIsUpdated) {
  for (const ZooModel& model : ZooModels()) {
    const Graph forward = ModelWriter::Get(model.make(2));
    for (auto optimizer : {TrainingOptions::kSgd, TrainingOptions::kAdam}) {
      const Graph graph = Training(forward, {.optimizer = optimizer});
      std::set<TensorId> updated;
      for (const Operator& op : graph.ops()) {
        if (op.anchor_weight != kNoTensor) updated.insert(op.anchor_weight);
      }
      for (const Weight& weight : graph.weights()) {
        const bool constant = !weight.trainable && weight.values != nullptr;
        EXPECT_EQ(updated.contains(weight.tensor), !constant) << graph.tensor(weight.tensor).name;
      }
    }
    const Graph evaluation = ModelWriter::Get(BuildEvaluationGraph(forward));
    EXPECT_EQ(evaluation.weights().size(), forward.weights().size());
    const std::string text = GraphText(evaluation);
    for (const char* kind : {"dropout", "batch_moments", "running_mean x"}) {
      EXPECT_THAT(text, Not(HasSubstr(std::string("= ") + kind))) << model.name;
    }
  }
}

TEST(TrainingGraphTest, OptimizersHaveNames) {
  EXPECT_EQ(*OptimizerNamed("nesterov"), TrainingOptions::kNesterov);
  EXPECT_EQ(OptimizerNamed("magic").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(OptimizerNamed("magic").status().message()), HasSubstr("adam"));
}

}  // namespace
}  // namespace partita

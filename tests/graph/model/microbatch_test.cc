#include "graph/model/microbatch.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/training/training_graph.h"
#include "gtest/gtest.h"
#include "runtime/serial/serial_trainer.h"
#include "tests/testing/graph_lookup.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kBatch = 8;
constexpr int kClasses = 5;

Graph Images(bool batch_norm, int64_t batch = kBatch) {
  ModelWriter m("images", DType::kFloat64);
  TensorId y = m.Conv("conv", m.Input({batch, 2, 4, 4}), 4);
  if (batch_norm) y = m.BatchNorm("bn", y);
  y = m.Relu("relu", y);
  y = ModelWriter::Get(
      m.builder.Add({.name = "flat", .attrs = Reshape{.shape = {-1, 64}}, .inputs = {y}}));
  return m.Finish(m.Linear("fc", y, kClasses));
}

Graph Split(const Graph& model, int count, TrainingOptions options = {}) {
  return ModelWriter::Get(BuildTrainingGraph(ModelWriter::Get(Microbatch(model, count)), options));
}

TEST(MicrobatchTest, CopiesShareWeightsAndAreAnchoredToTheFirst) {
  const Graph graph = ModelWriter::Get(Microbatch(Images(true), 4));
  EXPECT_EQ(graph.microbatches(), 4);
  EXPECT_EQ(graph.batch(), kBatch);
  EXPECT_EQ(graph.weights().size(), Images(true).weights().size());
  EXPECT_EQ(graph.anchors().size(), Images(true).anchors().size());
  std::vector<int64_t> rows;
  for (TensorId id : graph.tensors(TensorRole::kSamples)) rows.push_back(graph.FirstRowOf(id));
  EXPECT_THAT(rows, ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(graph.tensors(TensorRole::kLogits).size(), 4u);
  EXPECT_EQ(OpOf(graph, "bn.moments@3").anchor, OpOf(graph, "bn").id);
  EXPECT_EQ(OpOf(graph, "conv@2").microbatch, 2);
  EXPECT_EQ(OpOf(graph, "conv@2").inputs[1], IdOf(graph, "conv.weight"));
}

TEST(MicrobatchTest, RunningStatisticsPassFromMicrobatchToMicrobatch) {
  const Graph graph = ModelWriter::Get(Microbatch(Images(true), 2));
  const Operator& first = OpOf(graph, "bn.running_mean");
  const Operator& last = OpOf(graph, "bn.running_mean@1");
  EXPECT_EQ(first.inputs[0], IdOf(graph, "bn.running_mean"));
  EXPECT_EQ(graph.tensor(first.outputs[0]).kind, TensorKind::kActivation);
  EXPECT_EQ(last.inputs[0], first.outputs[0]);
  EXPECT_EQ(graph.tensor(last.outputs[0]).of, IdOf(graph, "bn.running_mean"));
  EXPECT_EQ(last.anchor_weight, first.anchor_weight);
}

// Steps of a graph on one batch that stays.
SerialTrainer Trained(const Graph& graph, int steps, double learning_rate = 0.1) {
  SerialTrainer trainer(graph, 3);
  const auto x = RandomNumbers(Volume(graph.WholeType(TensorRole::kSamples).shape), 1);
  const auto labels = RandomLabels(Volume(graph.WholeType(TensorRole::kLabels).shape), kClasses);
  for (int s = 0; s < steps; ++s) {
    EXPECT_TRUE(trainer.Step(x, labels, {.step = s, .learning_rate = learning_rate}).ok());
  }
  return trainer;
}

void ExpectNear(const SerialTrainer& found, const SerialTrainer& wanted, const std::string& name) {
  const std::vector<double> a = found.Get(IdOf(found.graph(), name));
  const std::vector<double> b = wanted.Get(IdOf(wanted.graph(), name));
  ASSERT_EQ(a.size(), b.size()) << name;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << name << " " << i;
}

TEST(MicrobatchTest, AStepIsThatOfTheWholeBatch) {
  for (auto optimizer :
       {TrainingOptions::kSgd, TrainingOptions::kNesterov, TrainingOptions::kAdam}) {
    const SerialTrainer whole = Trained(Split(Images(false), 1, {.optimizer = optimizer}), 3);
    for (int count : {2, 4, 8}) {
      for (int in_flight : {0, 1, 2}) {
        const Graph graph =
            Split(Images(false), count, {.optimizer = optimizer, .in_flight = in_flight});
        const SerialTrainer split = Trained(graph, 3);
        EXPECT_NEAR(split.loss(), whole.loss(), 1e-12);
        EXPECT_EQ(split.Get(graph.only(TensorRole::kCorrect)),
                  whole.Get(whole.graph().only(TensorRole::kCorrect)));
        for (const char* name : {"conv.weight", "fc.weight", "fc.bias"}) {
          ExpectNear(split, whole, name);
        }
      }
    }
  }
}

// As PyTorch does where gradients of several forward passes add up: each pass normalises by its own
// moments and takes its part in the running statistics.
TEST(MicrobatchTest, BatchNormalisationIsByMicrobatch) {
  constexpr int kCount = 4;
  const Graph graph = Split(Images(true), kCount);
  const SerialTrainer split = Trained(graph, 1, 0);
  const Graph part = Split(Images(true, kBatch / kCount), 1);
  SerialTrainer trainer(part, 3);
  const auto x = RandomNumbers(Volume(graph.WholeType(TensorRole::kSamples).shape), 1);
  const auto labels = RandomLabels(kBatch, kClasses);
  double loss = 0;
  std::vector<double> gradient(split.Get(IdOf(graph, "d:bn.weight")).size());
  for (size_t k = 0; k < kCount; ++k) {
    const size_t rows = kBatch / kCount, elements = x.size() / kCount;
    loss += ModelWriter::Get(trainer.Step(std::span(x).subspan(k * elements, elements),
                                          std::span(labels).subspan(k * rows, rows),
                                          {.learning_rate = 0})) /
            kCount;
    const std::vector<double> own = trainer.Get(IdOf(part, "d:bn.weight"));
    for (size_t i = 0; i < own.size(); ++i) gradient[i] += own[i] / kCount;
  }
  EXPECT_NEAR(split.loss(), loss, 1e-12);
  ExpectNear(split, trainer, "bn.running_mean");
  ExpectNear(split, trainer, "bn.running_var");
  const std::vector<double> found = split.Get(IdOf(graph, "d:bn.weight"));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], gradient[i], 1e-12);
}

TEST(MicrobatchTest, AnOperatorWaitsForItsGradientsOfTheMicrobatchThatMakesRoom) {
  const Graph graph = Split(Images(true), 4, {.in_flight = 2});
  for (const char* name : {"conv", "conv@1", "fc@1", "loss@1"}) {
    EXPECT_THAT(OpOf(graph, name).after, IsEmpty()) << name;
  }
  EXPECT_THAT(OpOf(graph, "conv@2").after, ElementsAre(OpOf(graph, "conv.d1").id));
  EXPECT_THAT(
      OpOf(graph, "fc@3").after,
      ElementsAre(OpOf(graph, "fc@1.d0").id, OpOf(graph, "fc@1.d1").id, OpOf(graph, "fc@1.d2").id));
  // The moments belong to the layer.
  EXPECT_EQ(OpOf(graph, "bn.moments@2").after, OpOf(graph, "bn@2").after);
  EXPECT_FALSE(OpOf(graph, "bn@2").after.empty());
  const Graph free = Split(Images(true), 4, {.in_flight = 0});
  for (const Operator& op : free.ops()) {
    EXPECT_THAT(op.after, IsEmpty()) << op.name;
  }
}

TEST(MicrobatchTest, GradientsAreOfTheMicrobatchOfTheirOperators) {
  const Graph graph = Split(Images(true), 4);
  for (const char* name : {"conv@3", "fc@3.d1", "bn@3.grad_apply", "loss@3.grad", "relu@3.d0"}) {
    EXPECT_EQ(OpOf(graph, name).microbatch, 3) << name;
  }
  for (const Operator& op : graph.ops()) {
    EXPECT_EQ(op.microbatch > 0, absl::StrContains(op.name, '@')) << op.name;
  }
}

TEST(MicrobatchTest, OneMicrobatchIsTheModel) {
  EXPECT_EQ(Split(Images(true), 1, {.in_flight = 2}).fingerprint(),
            Split(Images(true), 1).fingerprint());
}

TEST(MicrobatchTest, WhatCannotBeSplitIsRefused) {
  for (int count : {3, 0, -1, 16}) {
    const auto split = Microbatch(Images(false), count);
    ASSERT_FALSE(split.ok()) << count;
    EXPECT_EQ(split.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(split.status().message(),
                HasSubstr(absl::StrCat("a batch of 8 samples cannot be split into ", count)));
  }
  const Graph once = ModelWriter::Get(Microbatch(Images(false), 2));
  EXPECT_THAT(Microbatch(once, 2).status().message(), HasSubstr("has 2 microbatches already"));
}

}  // namespace
}  // namespace partita

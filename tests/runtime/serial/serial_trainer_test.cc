#include "runtime/serial/serial_trainer.h"

#include <cmath>

#include "gmock/gmock.h"
#include "graph/training/evaluation_graph.h"
#include "graph/training/training_graph.h"
#include "gtest/gtest.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

constexpr int32_t kClasses = 5;

// Everything that the training graph treats in a way of its own: batch norm, twice on shared
// scales, LRN, dropout, a residual sum, a tensor with several consumers. Logits have rank 4.
Graph ConvolutionModel(DType dtype, bool frozen) {
  ModelWriter m("convolution", dtype);
  const TensorId x = m.Input({3, 2, 4, 4});
  TensorId y = m.BatchNorm("bn1", m.Conv("conv1", x, 4), frozen);
  y = ModelWriter::Get(AddLrn(m.builder, "lrn", m.Relu("relu1", y), {.size = 3, .alpha = 0.5}));
  const TensorId branch = m.BatchNorm("bn2", m.Conv("conv2", y, 4), frozen);
  y = m.Binary("sum", "add", y, branch);
  y = m.Binary("product", "mul", y, y);
  y = ModelWriter::Get(AddDropout(m.builder, "dropout", y, 0.25));
  y = ModelWriter::Get(AddSoftmax(m.builder, "softmax", y));
  y = ModelWriter::Get(AddLogSoftmax(m.builder, "log_softmax", m.Linear("fc1", y, 6)));
  return m.Finish(m.Linear("fc2", y, kClasses));
}

Graph Training(const Graph& model, TrainingOptions options = {}) {
  return ModelWriter::Get(BuildTrainingGraph(model, options));
}

struct Batch {
  std::vector<float> x;
  std::vector<int32_t> labels;
};

Batch BatchFor(const Graph& graph) {
  Batch batch;
  batch.x = RandomNumbers(Volume(graph.WholeType(TensorRole::kSamples).shape), 1);
  if (!graph.tensors(TensorRole::kLabels).empty()) {
    batch.labels = RandomLabels(Volume(graph.WholeType(TensorRole::kLabels).shape), kClasses);
  }
  return batch;
}

TensorId IdOf(const SerialTrainer& trainer, absl::string_view name) {
  return ModelWriter::Get(trainer.Find(name));
}

double StepOf(SerialTrainer& trainer, const Batch& batch, const StepArguments& arguments) {
  return ModelWriter::Get(trainer.Step(batch.x, batch.labels, arguments));
}

// Compares the gradient of every trainable weight with finite differences of the loss. The model
// is in double. A learning rate of 0 leaves the weights alone.
void CheckGradients(const Graph& graph) {
  SerialTrainer trainer(graph, 3);
  const Batch batch = BatchFor(graph);
  StepArguments arguments;
  arguments.seed = 11;
  arguments.learning_rate = 0;
  StepOf(trainer, batch, arguments);
  SerialTrainer probe = trainer;
  constexpr double kStep = 1e-5;
  int checked = 0;
  for (const Weight& weight : graph.weights()) {
    if (!weight.trainable) continue;
    const std::string& name = graph.tensor(weight.tensor).name;
    const std::vector<double> gradient = trainer.Get(IdOf(trainer, "d:" + name));
    auto elements = probe.mutable_value(weight.tensor).as<double>();
    for (size_t i = 0; i < elements.size(); i += 1 + elements.size() / 7) {
      const double before = elements[i];
      auto loss_at = [&](double value) {
        elements[i] = value;
        return StepOf(probe, batch, arguments);
      };
      const double slope = (loss_at(before + kStep) - loss_at(before - kStep)) / (2 * kStep);
      elements[i] = before;
      EXPECT_NEAR(gradient[i], slope, 1e-7 + 1e-5 * std::abs(slope)) << name << " element " << i;
      ++checked;
    }
  }
  EXPECT_GT(checked, 40);
}

TEST(SerialTrainerTest, GradientsOfTheWholeGraphAreFiniteDifferences) {
  CheckGradients(Training(ConvolutionModel(DType::kFloat64, /*frozen=*/false)));
}

TEST(SerialTrainerTest, GradientsWithFrozenStatisticsAreFiniteDifferences) {
  CheckGradients(Training(ConvolutionModel(DType::kFloat64, /*frozen=*/true)));
}

TEST(SerialTrainerTest, GradientsOfTheSumOfSquaresAreFiniteDifferences) {
  CheckGradients(
      Training(ConvolutionModel(DType::kFloat64, false), {.loss = TrainingOptions::kSumOfSquares}));
}

TEST(SerialTrainerTest, SharedBatchNormWeightsTakeTheGradientsOfBothLayers) {
  ModelWriter m("shared", DType::kFloat64);
  const TensorId x = m.Input({6, 4});
  const TensorId gamma = m.Weight("gamma", {4}, 1), beta = m.Weight("beta", {4}, 1);
  TensorId y = m.Linear("fc0", x, 4);
  for (const char* name : {"bn1", "bn2"}) {
    const std::string layer = name;
    y = ModelWriter::Get(AddBatchNorm(
        m.builder,
        {.name = layer, .x = m.Linear(layer + ".fc", y, 4), .gamma = gamma, .beta = beta}));
  }
  y = ModelWriter::Get(AddLogSoftmax(m.builder, "softmax", y));
  CheckGradients(Training(m.Finish(m.Linear("fc3", y, kClasses))));
}

TEST(SerialTrainerTest, FloatGradientsAreCloseToDoubleOnes) {
  const Graph floats = Training(ConvolutionModel(DType::kFloat32, false));
  const Graph doubles = Training(ConvolutionModel(DType::kFloat64, false));
  SerialTrainer a(floats, 3), b(doubles, 3);
  const Batch batch = BatchFor(floats);
  EXPECT_NEAR(StepOf(a, batch, {}), StepOf(b, batch, {}), 1e-5);
  for (const Weight& weight : floats.weights()) {
    const std::string& name = floats.tensor(weight.tensor).name;
    const std::vector<double> x = a.Get(IdOf(a, name)), y = b.Get(IdOf(b, name));
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 2e-5) << name;
  }
}

TEST(SerialTrainerTest, RunningStatisticsFollowPyTorch) {
  ModelWriter m("statistics", DType::kFloat64);
  const TensorId x = m.Input({4, 2});
  const TensorId y = m.BatchNorm("bn", x);
  SerialTrainer trainer(Training(m.Finish(m.Linear("fc", y, kClasses))), 1);
  const Batch batch{{1, 10, 2, 20, 3, 30, 6, 40}, {0, 1, 2, 3}};
  StepOf(trainer, batch, {});
  // Batch means 3 and 25, unbiased variances 14/3 and 500/3; they start at 0.5 and 2.
  const auto mean = trainer.Get(IdOf(trainer, "bn.running_mean"));
  const auto variance = trainer.Get(IdOf(trainer, "bn.running_var"));
  EXPECT_NEAR(mean[0], 0.9 * 0.5 + 0.1 * 3, 1e-12);
  EXPECT_NEAR(mean[1], 0.9 * 0.5 + 0.1 * 25, 1e-12);
  EXPECT_NEAR(variance[0], 0.9 * 2 + 0.1 * 14 / 3, 1e-12);
  EXPECT_NEAR(variance[1], 0.9 * 2 + 0.1 * 500 / 3, 1e-12);
}

// Sums in double keep a small deviation around a large mean.
TEST(SerialTrainerTest, BatchNormOfALargeMeanLosesLittle) {
  auto model = [](DType dtype) {
    ModelWriter m("offset", dtype);
    const TensorId x = m.Input({64, 4});
    const TensorId offset = m.Constant("offset", {4}, 0, true);
    const TensorId y = m.BatchNorm("bn", m.Binary("sum", "add", x, offset));
    return Training(m.Finish(m.Linear("fc", y, kClasses)));
  };
  SerialTrainer floats(model(DType::kFloat32), 8), doubles(model(DType::kFloat64), 8);
  Batch batch = BatchFor(floats.graph());
  for (float& x : batch.x) x = 1000 + 0.1f * x;
  StepOf(floats, batch, {});
  StepOf(doubles, batch, {});
  const std::vector<double> got = floats.Get(IdOf(floats, "d:sum"));
  const std::vector<double> want = doubles.Get(IdOf(doubles, "d:sum"));
  double largest = 0, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    error = std::max(error, std::abs(got[i] - want[i]));
  }
  EXPECT_LT(error, 1e-5 * largest);
}

TEST(SerialTrainerTest, EvaluationTakesRunningStatisticsAndNoDropout) {
  auto model = [](bool frozen) {
    ModelWriter m("model", DType::kFloat64);
    TensorId y = m.BatchNorm("bn", m.Linear("fc0", m.Input({4, 3}), 6), frozen);
    if (!frozen) y = ModelWriter::Get(AddDropout(m.builder, "dropout", y, 0.5));
    return m.Finish(m.Linear("fc", y, kClasses));
  };
  SerialTrainer evaluation(ModelWriter::Get(BuildEvaluationGraph(model(false))), 4);
  SerialTrainer fixed(Training(model(true)), 4);
  const Batch batch = BatchFor(fixed.graph());
  EXPECT_EQ(StepOf(evaluation, batch, {}), StepOf(fixed, batch, {}));
  EXPECT_EQ(evaluation.Get(evaluation.graph().only(TensorRole::kLogits)),
            fixed.Get(fixed.graph().only(TensorRole::kLogits)));
}

// One weight of each optimizer against the formulas, for several steps.
class OptimizerTest : public ::testing::TestWithParam<TrainingOptions::Optimizer> {};

TEST_P(OptimizerTest, UpdatesFollowPyTorch) {
  ModelWriter m("linear", DType::kFloat64);
  const TensorId logits = m.Linear("fc", m.Input({6, 3}), kClasses);
  const Graph graph = Training(m.Finish(logits), {.optimizer = GetParam()});
  SerialTrainer trainer(graph, 5);
  const Batch batch = BatchFor(graph);
  StepArguments arguments;
  arguments.learning_rate = 0.125;
  arguments.momentum = 0.75;
  arguments.weight_decay = 0.01;
  const TensorId weight = IdOf(trainer, "fc.weight");
  double w = trainer.Get(weight)[2], first = 0, second = 0;
  for (arguments.step = 0; arguments.step < 4; ++arguments.step) {
    StepOf(trainer, batch, arguments);
    const double g = trainer.Get(IdOf(trainer, "d:fc.weight"))[2] + 0.01 * w;
    if (GetParam() == TrainingOptions::kAdam) {
      const double t = static_cast<double>(arguments.step + 1);
      first = 0.9 * first + 0.1 * g;
      second = 0.999 * second + 0.001 * g * g;
      w -= 0.125 * (first / (1 - std::pow(0.9, t))) /
           (std::sqrt(second / (1 - std::pow(0.999, t))) + 1e-8);
    } else {
      first = 0.75 * first + g;
      w -= 0.125 * (GetParam() == TrainingOptions::kNesterov ? g + 0.75 * first : first);
    }
    EXPECT_NEAR(trainer.Get(weight)[2], w, 1e-12) << "step " << arguments.step;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerTest,
                         ::testing::Values(TrainingOptions::kSgd, TrainingOptions::kNesterov,
                                           TrainingOptions::kAdam),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(SerialTrainerTest, TrainingLowersTheLossAndCountsWhatIsCorrect) {
  ModelWriter m("perceptron", DType::kFloat32);
  TensorId y = m.Relu("relu", m.Linear("fc1", m.Input({8, 4}), 16));
  const Graph graph = Training(m.Finish(m.Linear("fc2", y, kClasses)));
  SerialTrainer trainer(graph, 2);
  const Batch batch = BatchFor(graph);
  StepArguments arguments;
  arguments.learning_rate = 0.1;
  const double first = StepOf(trainer, batch, arguments);
  double last = first;
  for (arguments.step = 1; arguments.step < 100; ++arguments.step) {
    last = StepOf(trainer, batch, arguments);
  }
  EXPECT_LT(last, 0.05 * first);
  EXPECT_EQ(trainer.Get(graph.only(TensorRole::kCorrect))[0], 8);
}

TEST(SerialTrainerTest, DropoutDropsItsShareAndChangesWithStepAndSeed) {
  ModelWriter m("dropout", DType::kFloat32);
  const TensorId y = ModelWriter::Get(AddDropout(m.builder, "drop", m.Input({64, 64}), 0.25));
  SerialTrainer trainer(m.Finish(y));
  const std::vector<float> ones(64 * 64, 1.0f);
  auto run = [&](int64_t step, uint64_t seed) {
    StepArguments arguments;
    arguments.step = step;
    arguments.seed = seed;
    EXPECT_TRUE(trainer.Set(trainer.graph().only(TensorRole::kSamples), ones).ok());
    EXPECT_TRUE(trainer.Step(arguments).ok());
    return trainer.Get(y);
  };
  const std::vector<double> first = run(0, 1);
  EXPECT_THAT(first, ::testing::Each(
                         ::testing::AnyOf(0.0, ::testing::DoubleEq(static_cast<float>(1 / 0.75)))));
  const double kept = static_cast<double>(
      first.size() - static_cast<size_t>(std::count(first.begin(), first.end(), 0.0)));
  EXPECT_NEAR(kept / static_cast<double>(first.size()), 0.75, 0.03);
  EXPECT_EQ(run(0, 1), first);
  EXPECT_NE(run(1, 1), first);
  EXPECT_NE(run(0, 2), first);
}

TEST(SerialTrainerTest, RingStepsAreReproducibleAndMoveEveryTrainedWeight) {
  for (auto optimizer :
       {TrainingOptions::kSgd, TrainingOptions::kNesterov, TrainingOptions::kAdam}) {
    const Graph graph = WithRingArithmetic(
        Training(ConvolutionModel(DType::kFloat32, false), {.optimizer = optimizer}));
    SerialTrainer a(graph);
    a.RandomizeRing(1);
    SerialTrainer b = a;
    const SerialTrainer start = a;
    for (StepArguments arguments; arguments.step < 3; ++arguments.step) {
      ASSERT_TRUE(a.Step(arguments).ok());
      ASSERT_TRUE(b.Step(arguments).ok());
    }
    for (const Tensor& tensor : graph.tensors()) {
      EXPECT_TRUE(a.value(tensor.id) == b.value(tensor.id)) << tensor.name;
      if (tensor.kind == TensorKind::kWeight) {
        EXPECT_FALSE(a.value(tensor.id) == start.value(tensor.id)) << tensor.name;
      }
    }
  }
}

TEST(SerialTrainerTest, WrongSizesAndNamesAreErrors) {
  ModelWriter m("small", DType::kFloat32);
  SerialTrainer trainer(Training(m.Finish(m.Linear("fc", m.Input({2, 3}), kClasses))));
  const std::vector<float> x(5), whole(6);
  const std::vector<int32_t> labels(3);
  EXPECT_EQ(trainer.Step(x, labels, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(trainer.Step(whole, labels, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(trainer.Find("nothing").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace partita

// What `verify` runs finds every kind of mistake that a partitioner could make.
#include "tools/workflow/verification.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_order.h"
#include "graph/training/training_graph.h"
#include "gtest/gtest.h"
#include "runtime/backend/host/host_device.h"
#include "runtime/backend/reference/kernels.h"
#include "runtime/executor/executor_setup.h"
#include "tests/testing/by_sample.h"
#include "tests/testing/dense_model.h"
#include "tests/testing/faults.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr int kPlantings = 6;  // of each kind, at least

// How often a kind was planted, and what found it.
struct Count {
  int planted = 0, executed = 0, proven = 0;
};

// A fault is planted into the steps of both arithmetics at the same place.
StepsToVerify FaultySteps(const Graph& graph, const Strategy& strategy,
                          const PartitionOptions& options, const Fault& fault, uint64_t seed) {
  return {graph, strategy, options.devices,
          [&strategy, options, &fault, seed](const Graph& form) -> absl::StatusOr<PlannedStep> {
            PlannedStep step = ModelWriter::Get(CanonicalStep(form, strategy, options));
            std::mt19937_64 random(seed);
            auto faulty = WithFault(fault, form, step.tasks, random);
            if (!faulty.has_value()) return absl::NotFoundError("no place");
            step.tasks = *std::move(faulty);
            step.order = CanonicalOrder(step.tasks);
            return step;
          }};
}

class VerificationTest : public ::testing::Test {
 protected:
  // Plants every kind that finds a place into one random plan of a dense model.
  void PlantIntoPlan(uint64_t seed) {
    std::mt19937_64 random(seed);
    const Graph graph = ModelWriter::Get(BuildTrainingGraph(
        DenseModel(), {.optimizer = static_cast<TrainingOptions::Optimizer>(random() % 3)}));
    PartitionOptions options = RandomPartitionOptions(random);
    options.devices = 2 + static_cast<int>(random() % 4);
    options.node_of_device.clear();
    const Strategy strategy = RandomStrategy(graph, options.devices, random);
    for (const Fault& fault : PlantedFaults()) {
      Count& count = counts_[fault.name];
      if (count.planted >= kPlantings) continue;
      const StepsToVerify steps = FaultySteps(graph, strategy, options, fault, seed);
      if (!steps.make(graph).ok()) continue;
      const auto result = VerifySteps(steps, {.steps = 2});
      ASSERT_TRUE(result.ok()) << fault.name << ", seed " << seed << ": " << result.status();
      ++count.planted;
      EXPECT_FALSE(result->equal) << fault.name << ", seed " << seed;
      EXPECT_EQ(ExitCodeOf(*result), 1) << fault.name << ", seed " << seed;
      // A tensor (or the task of one) by name.
      EXPECT_THAT(result->first_difference, ::testing::ContainsRegex("'[^']+'"))
          << fault.name << ", seed " << seed;
      const bool proven = absl::StartsWith(result->first_difference, "plan verifier: ");
      ++(proven ? count.proven : count.executed);
      if (count.planted == 1) std::printf("%s: %s\n", fault.name, result->first_difference.c_str());
    }
  }

  std::map<std::string, Count> counts_;
};

TEST_F(VerificationTest, EveryPlantedFaultMakesVerifyExitWith1AndNameATensor) {
  for (uint64_t seed = 0; seed < 40; ++seed) PlantIntoPlan(seed);
  int kinds = 0, kinds_by_execution = 0;
  for (const auto& [name, count] : counts_) {
    std::printf("%s: planted %d, found by execution %d, by the plan verifier %d\n", name.c_str(),
                count.planted, count.executed, count.proven);
    kinds += count.planted > 0;
    kinds_by_execution += count.executed > 0;
  }
  EXPECT_GE(kinds, 20);
  EXPECT_GE(kinds_by_execution, 20);
}

TEST_F(VerificationTest, StepsWithoutAFaultAreEqualAndExitWith0) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = ModelWriter::Get(BuildTrainingGraph(DenseModel(), {}));
    const PartitionOptions options{.devices = 3};
    const Strategy strategy = RandomStrategy(graph, options.devices, random);
    const auto result =
        VerifySteps({graph, strategy, 3,
                     [&](const Graph& form) { return CanonicalStep(form, strategy, options); }},
                    {});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->equal) << result->first_difference;
    EXPECT_TRUE(result->ring_checked);
    EXPECT_EQ(ExitCodeOf(*result), 0);
  }
}

// A perceptron: its weights are most of what it takes.
Graph Perceptron() {
  ModelWriter m("perceptron", DType::kFloat32);
  return ModelWriter::Get(BuildTrainingGraph(
      m.Finish(m.Linear("fc2", m.Relu("relu", m.Linear("fc1", m.Input({16, 64}), 256)), 16)), {}));
}

TEST_F(VerificationTest, EveryDeviceCountsInTheBytesThatAreNeeded) {
  const Graph graph = Perceptron();
  int64_t serial = 0;  // in the ring, where numbers take twice as much
  for (const Tensor& tensor : graph.tensors()) serial += 2 * tensor.type.bytes();
  for (int devices : {1, 16}) {
    const Strategy strategy = BySample(graph, devices);
    const StepsToVerify steps = {graph, strategy, devices, [&](const Graph& form) {
                                   return CanonicalStep(form, strategy, {.devices = devices});
                                 }};
    const auto tight = VerifySteps(steps, {.memory_bytes = 3 * serial});
    if (devices == 1) {
      ASSERT_TRUE(tight.ok()) << tight.status();
      EXPECT_TRUE(tight->equal) << tight->first_difference;
      continue;
    }
    EXPECT_EQ(tight.status().code(), absl::StatusCode::kResourceExhausted) << tight.status();
    EXPECT_THAT(std::string(tight.status().message()),
                ::testing::ContainsRegex("at batch 16 needs at least [0-9]+ bytes; .*--quick"));
    const auto wide = VerifySteps(steps, {});  // what this host has
    ASSERT_TRUE(wide.ok()) << wide.status();
    EXPECT_TRUE(wide->equal) << wide->first_difference;
  }
}

TEST_F(VerificationTest, AnInterruptedVerificationSaysHowFarItCameAndExitsWith130) {
  const Graph graph = Perceptron();
  const Strategy strategy = BySample(graph, 2);
  for (int before : {0, 1}) {  // arithmetics to compare before the interruption
    std::atomic<bool> stop = false;
    int made = 0;
    const StepsToVerify steps = {graph, strategy, 2, [&](const Graph& form) {
                                   stop = made++ == before;
                                   return CanonicalStep(form, strategy, {.devices = 2});
                                 }};
    const auto result = VerifySteps(steps, {.steps = 3, .stop = &stop});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->interrupted);
    EXPECT_FALSE(result->equal);
    EXPECT_EQ(result->ring_checked, before == 1);
    EXPECT_EQ(result->steps_compared, 3 * before);
    EXPECT_EQ(result->first_difference, "");
    EXPECT_EQ(ExitCodeOf(*result), 130);
  }
}

// What `verify` says of a graph on one device, in float.
VerificationResult VerifyOnOne(const Graph& graph, std::vector<PlacedDevice> devices = {}) {
  const Strategy strategy = SingleDevice(graph, DeviceId(0));
  const auto make = [&](const Graph& form) {
    return CanonicalStep(form, strategy, {.devices = 1});
  };
  return ModelWriter::Get(
      VerifySteps({graph, strategy, 1, make, std::move(devices)}, {.quick = true}));
}

// All elements of the weight are `value`.
Graph ModelWithWeights(double value) {
  ModelWriter m("constant", DType::kFloat32);
  const TensorId weight = m.Constant("w", {5, 3}, value, true);
  const TensorId y = ModelWriter::Get(m.builder.Add(
      {.name = "fc", .attrs = MatMul{.transposed = true}, .inputs = {m.Input({4, 3}), weight}}));
  return ModelWriter::Get(BuildTrainingGraph(m.Finish(y), {}));
}

TEST_F(VerificationTest, WeightsThatAreNotFiniteAreCalledSo) {
  EXPECT_TRUE(VerifyOnOne(ModelWithWeights(0.5)).equal);
  for (const auto& [value, text] :
       {std::pair{std::nan(""), "nan"}, {HUGE_VAL, "inf"}, {-HUGE_VAL, "-inf"}}) {
    const VerificationResult result = VerifyOnOne(ModelWithWeights(value));
    EXPECT_EQ(ExitCodeOf(result), 1);
    EXPECT_EQ(result.first_difference,
              absl::StrCat("the model's weight 'w' is ", text,
                           " at element 0, so that no run of it can be compared in float. Give the "
                           "model finite weights"));
  }
  const VerificationResult diverging = VerifyOnOne(ModelWithWeights(3e38));
  EXPECT_EQ(ExitCodeOf(diverging), 1);
  EXPECT_THAT(diverging.first_difference,
              ::testing::StartsWith("the serial model itself diverges: tensor '"));
}

// Its ReLU, alone and fused, makes 0 of NaN.
class NanLosingDevice : public HostDevice {
 public:
  using HostDevice::HostDevice;
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature) override {
    return std::make_unique<NanLosingKernel>(signature);
  }

 private:
  class NanLosingKernel : public HostKernel {
   public:
    explicit NanLosingKernel(KernelSignature signature) : signature_(std::move(signature)) {}
    int64_t scratch_bytes() const override { return 0; }
    absl::Status Run(const KernelArguments& arguments, void*) const override {
      const absl::Status status = RunReferenceKernel(signature_, arguments);
      if (!IsEpilogue(StagesOf(signature_).back().kernel.attrs)) return status;
      auto* y = static_cast<float*>(arguments.outputs[0].data);
      for (int64_t i = 0; i < Volume(signature_.outputs[0].type.shape); ++i) {
        if (std::isnan(y[i])) y[i] = 0;
      }
      return status;
    }

   private:
    const KernelSignature signature_;
  };
};

class NanLosingBackend : public Backend {
 public:
  std::string name() const override { return "nan_losing"; }
  absl::Status Available() const override { return absl::OkStatus(); }
  bool RunsOnHost() const override { return true; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    return std::make_unique<NanLosingDevice>(spec);
  }
};

TEST_F(VerificationTest, ABackendThatLosesNanIsNotEqual) {
  const Graph graph = Perceptron();
  EXPECT_TRUE(VerifyOnOne(graph).equal);
  const VerificationResult result =
      VerifyOnOne(graph, VirtualDevices(std::make_shared<NanLosingBackend>(), 1));
  EXPECT_EQ(ExitCodeOf(result), 1);
  EXPECT_THAT(result.first_difference,
              ::testing::ContainsRegex("NaN vanishes: .* tensor '.*', element .* in the serial "
                                       "model it is -?nan"));
}

// Layers whose weights are far larger than those of a trained model: what differs by rounding grows
// from layer to layer and from step to step.
Graph ChaoticModel() {
  ModelWriter m("chaotic", DType::kFloat32);
  TensorId x = m.Input({8, 32});
  for (int layer = 0; layer < 24; ++layer) {
    const std::string name = absl::StrCat("fc", layer);
    x = ModelWriter::Get(
        m.builder.Add({.name = name,
                       .attrs = MatMul{},
                       .inputs = {x, m.Weight(name + ".weight", {32, 32}, /*fan_in=*/1)}}));
    x = ModelWriter::Get(m.builder.Add(
        {.name = absl::StrCat("tanh", layer), .attrs = Unary{.function = "tanh"}, .inputs = {x}}));
  }
  return ModelWriter::Get(BuildTrainingGraph(m.Finish(m.Linear("head", x, 8)), {}));
}

class AmplifiedRoundingTest : public ::testing::Test {
 protected:
  AmplifiedRoundingTest() {
    std::mt19937_64 random(1);
    strategy_ = RandomStrategy(graph_, 2, random);
  }

  StepsToVerify Steps(std::vector<PlacedDevice> devices = {}) const {
    return {graph_, strategy_, 2,
            [this](const Graph& form) { return CanonicalStep(form, strategy_, {.devices = 2}); },
            std::move(devices)};
  }
  static VerificationResult Quick(const StepsToVerify& steps, int64_t memory_bytes = 0) {
    return ModelWriter::Get(
        VerifySteps(steps, {.quick = true, .steps = 3, .memory_bytes = memory_bytes}));
  }

  const Graph graph_ = ChaoticModel();
  Strategy strategy_;
};

TEST_F(AmplifiedRoundingTest, IsToldFromAFaultInFloat64) {
  const VerificationResult result = Quick(Steps());
  EXPECT_TRUE(result.equal) << result.first_difference;
  EXPECT_THAT(result.rounding,
              ::testing::StartsWith("this model amplifies rounding: in float32 tensor '"));
  EXPECT_EQ(result.arithmetic, "float64");
  EXPECT_EQ(result.tolerance, 1e-6);
  EXPECT_LT(result.max_abs_error, 1e-6);
  EXPECT_EQ(result.steps_compared, 6);
  EXPECT_EQ(result.steps_to_compare, 6);
}

TEST_F(AmplifiedRoundingTest, HidesNoFault) {
  int planted = 0;
  for (const Fault& fault : PlantedFaults()) {
    const StepsToVerify steps = FaultySteps(graph_, strategy_, {.devices = 2}, fault, 1);
    if (!steps.make(graph_).ok()) continue;
    ++planted;
    const VerificationResult result = Quick(steps);
    EXPECT_FALSE(result.equal) << fault.name;
    EXPECT_EQ(result.rounding, "") << fault.name;
  }
  EXPECT_GE(planted, 10);
}

TEST_F(AmplifiedRoundingTest, IsNotToldWhereFloat64DoesNotFit) {
  int64_t serial = 0;
  for (const Tensor& tensor : graph_.tensors()) serial += tensor.type.bytes();
  const VerificationResult result = Quick(Steps(), 3 * serial);
  EXPECT_FALSE(result.equal);
  EXPECT_THAT(result.first_difference,
              ::testing::ContainsRegex("^tensor '.*' after step 2, element .* instead of .*It may "
                                       "be rounding: to tell it apart in float64, .* needs at "
                                       "least [0-9]+ bytes; .*Try --memory"));
}

TEST_F(AmplifiedRoundingTest, OfOtherKernelsIsNotProven) {
  const VerificationResult result =
      Quick(Steps(VirtualDevices(std::make_shared<NanLosingBackend>(), 2)));
  EXPECT_EQ(ExitCodeOf(result), 1);
  EXPECT_THAT(result.first_difference,
              ::testing::ContainsRegex("^tensor '.*' after step 2, .*equal in float64 on the "
                                       "reference backend, so that rounding"));
}

}  // namespace
}  // namespace partita

// What the cuda backend would launch, carried out on the host: every operator and pass, whole and
// in parts, gives what the reference kernels give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "runtime/backend/cuda/plan/kernel_steps.h"
#include "runtime/backend/reference/kernels.h"
#include "tests/conformance/kernel_examples.h"
#include "tests/conformance/not_finite.h"
#include "tests/runtime/cuda/host_run.h"
#include "tests/runtime/cuda/planned_run.h"

namespace partita {
namespace {

TEST(CudaKernelPlanTest, EveryKernelEqualsTheReferenceKernel) {
  int compared = 0;
  for (const OperatorExample& example : KernelExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
      const auto [inputs, expected] = InputsAndResults(kernel, example, run);
      ExpectNear(expected, Planned(kernel, inputs));
      ++compared;
    }
  }
  EXPECT_GT(compared, 150);
}

TEST(CudaKernelPlanTest, WhatIsNotFiniteStaysSo) {
  uint64_t places = 1;
  int64_t compared = 0;
  for (const OperatorExample& example : KernelExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      const auto usual = InputsAndResults(kernel, example, run);
      for (const PlantedInputs& planted : WithNotFinite(kernel, usual, places++)) {
        SCOPED_TRACE(example.name + ", " + planted.what + ": " + ToString(kernel.signature));
        compared += ExpectNotFiniteKept(kernel, planted.values.expected,
                                        Planned(kernel, planted.values.inputs));
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(compared, 10000);
}

// Outputs that are not present are not written.
std::vector<TestTensor> PresentOnly(const WholeKernel& kernel, std::vector<TestTensor> tensors) {
  for (size_t k = 0; k < tensors.size(); ++k) {
    if (!kernel.signature.outputs[k].present) tensors[k].bytes.clear();
  }
  return tensors;
}

TEST(CudaKernelPlanTest, EveryPartOfASplitEqualsTheReferenceKernel) {
  std::mt19937_64 random(11);
  int parts = 0;
  for (const OperatorExample& example : OperatorExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (Pass pass : PassesOf(run.rule())) {
      for (int k = 0; k < 12; ++k) {
        const auto kind = k % 2 == 0 ? OperandFill::Kind::kReal : OperandFill::Kind::kPositive;
        const auto inputs = WholeInputs(pass, example, run, kind, random);
        std::vector<int64_t> degrees;
        for (const LoopDim& loop : run.rule().loops) {
          const int64_t most = loop.splittable ? std::min<int64_t>(3, loop.extent) : 1;
          degrees.push_back(
              std::uniform_int_distribution<int64_t>(1, std::max<int64_t>(1, most))(random));
        }
        // A split that is not legal fails, before its first part or behind it.
        (void)run.VisitParts(pass, inputs, degrees,
                             [&](const WholeKernel& kernel, const std::vector<TestTensor>& pieces) {
                               SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
                               ExpectNear(PresentOnly(kernel, ReferenceResults(kernel, pieces)),
                                          PresentOnly(kernel, Planned(kernel, pieces)));
                               ++parts;
                             });
      }
    }
  }
  EXPECT_GT(parts, 3000);
}

TEST(CudaKernelPlanTest, KernelsMayWriteOverTheInputsThatTheyName) {
  int pairs = 0;
  for (const OperatorExample& example : OperatorExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      auto [inputs, expected] = InputsAndResults(kernel, example, run);
      for (InPlacePair pair : InPlace(kernel.signature)) {
        const auto from = static_cast<size_t>(pair.input), to = static_cast<size_t>(pair.output);
        if (!(kernel.signature.inputs[from] == kernel.signature.outputs[to])) continue;
        SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
        std::vector<TestTensor> own = inputs;
        Launched launch = LaunchOf(kernel, own);
        launch.out[to].data = launch.in[from].data;
        ScratchMemory scratch(PlanShapes(kernel.signature)->scratch_bytes);
        const auto plan = PlanKernel(
            kernel.signature, {launch.in, launch.out, ExampleStep(), kExampleKey}, scratch.data());
        ASSERT_TRUE(plan.ok()) << plan.status();
        RunOnHost(*plan);
        launch.results[to].bytes = own[from].bytes;
        ExpectNear(expected, launch.results);
        ++pairs;
      }
    }
  }
  EXPECT_GT(pairs, 30);
}

// A launch that is recorded at one step and run at another.
TEST(CudaKernelPlanTest, TheNumbersOfTheStepMayLieInMemory) {
  StepArguments recorded = ExampleStep();
  recorded.step += 3;
  recorded.seed += 1;
  recorded.learning_rate *= 2;
  recorded.momentum = 0.1;
  recorded.beta1 = recorded.beta2 = 0.5;
  const StepNumbers numbers = NumbersOf(ExampleStep());
  int changed = 0;
  for (const OperatorExample& example : OperatorExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
      const auto [inputs, expected] = InputsAndResults(kernel, example, run);
      std::vector<std::vector<TestTensor>> results;
      for (const StepNumbers* memory : {&numbers, static_cast<const StepNumbers*>(nullptr)}) {
        std::vector<TestTensor> own = inputs;
        Launched launch = LaunchOf(kernel, own);
        ScratchMemory scratch(PlanShapes(kernel.signature)->scratch_bytes);
        const auto plan =
            PlanKernel(kernel.signature, {launch.in, launch.out, recorded, kExampleKey},
                       {scratch.data(), memory});
        ASSERT_TRUE(plan.ok()) << plan.status();
        RunOnHost(*plan);
        results.push_back(PresentOnly(kernel, launch.results));
      }
      ExpectNear(PresentOnly(kernel, expected), results[0]);
      changed += results[0] == results[1] ? 0 : 1;
    }
  }
  EXPECT_GT(changed, 5);
}

TEST(CudaKernelPlanTest, WhatIsNotFloat32IsDeclined) {
  const KernelTensor doubles{{DType::kFloat64, {4}}}, ring{{DType::kRing64, {4}}};
  for (const KernelTensor& tensor : {doubles, ring}) {
    const auto plan = PlanShapes({Relu{}, Pass::Forward(), {tensor}, {tensor}});
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kUnimplemented) << plan.status();
  }
  KernelTensor native{{DType::kFloat32, {2, 3, 4, 5}}, Format::kNative};
  EXPECT_EQ(PlanShapes({Relu{}, Pass::Forward(), {native}, {native}}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(CudaKernelPlanTest, NotANumberWinsInMaximumPoolingAndStaysInRelu) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {1, nan, 3, 2, 5, 5, -1, nan, 0, 4, 4, -2};
  std::vector<float> y(3), places_dx(12), dy = {1, 2, 4};
  const TensorType type{DType::kFloat32, {1, 1, 2, 6}}, small{DType::kFloat32, {1, 1, 1, 3}};
  const auto argument = [](std::vector<float>& data, const TensorType& t) {
    return TensorArgument{data.data(), Box::Full(t.shape), t.shape};
  };
  const Pool2d pool{.kernel = {2, 2}, .stride = {2, 2}};
  const std::vector<TensorArgument> in = {argument(x, type)}, out = {argument(y, small)};
  RunOnHost(*PlanKernel({pool, Pass::Forward(), {{type}}, {{small}}}, {in, out, {}, 0}, nullptr));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 4.0f);
  EXPECT_EQ(y[2], 5.0f);

  ScratchMemory scratch(4096);
  const std::vector<TensorArgument> in2 = {argument(x, type), argument(dy, small)};
  const std::vector<TensorArgument> out2 = {argument(places_dx, type)};
  RunOnHost(*PlanKernel({pool, Pass::Gradient(0), {{type}, {small}}, {{type}}}, {in2, out2, {}, 0},
                        scratch.data()));
  EXPECT_EQ(places_dx, (std::vector<float>{0, 0, 0, 0, 4, 0, 0, 1, 0, 2, 0, 0}));

  std::vector<float> relu(12);
  const std::vector<TensorArgument> out3 = {argument(relu, type)};
  RunOnHost(*PlanKernel({Relu{}, Pass::Forward(), {{type}}, {{type}}}, {in, out3, {}, 0}, nullptr));
  EXPECT_TRUE(std::isnan(relu[1]));
  EXPECT_EQ(relu[6], 0.0f);
}

// Shapes at which rows are cut into chunks, so that the partial results meet in a second pass.
TEST(CudaKernelPlanTest, LongReductionsAreCutIntoChunksAndEqualTheReference) {
  const TensorType x{DType::kFloat32, {16, 6, 40, 40}}, wide{DType::kFloat64, {6}};
  const TensorType rows{DType::kFloat32, {20000, 3}};
  const std::vector<OperatorExample> examples = {
      {"Moments", BatchMoments{}, {x}},
      {"GradMoments", BatchNormGradMoments{{.count = 25600}}, {x, wide, wide, x}},
      {"Squares", SumOfSquares{}, {x}},
      {"Mean", *MakeReduceMean(x.shape, {0, 2, 3}, false), {x}},
      {"Add", Binary{"mul"}, {x, {DType::kFloat32, {6, 1, 1}}}},
      {"Bias", MatMul{}, {rows, {DType::kFloat32, {2, 3}}, {DType::kFloat32, {2}}}},
      {"RowSum", RowSum{}, {{DType::kFloat32, {2, 30000}}}},
  };
  for (const OperatorExample& example : examples) {
    const OperatorRun run(example, DType::kFloat32);
    bool cut = false;
    for (const WholeKernel& kernel : KernelsOf(run)) {
      if (EndsInUpdate(kernel.signature)) continue;
      SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
      const auto plan = PlanShapes(kernel.signature);
      ASSERT_TRUE(plan.ok()) << plan.status();
      for (const KernelStep& step : plan->steps) {
        if (const auto* work = std::get_if<ReductionWork>(&step)) cut |= work->shape.chunks > 1;
      }
      const auto [inputs, expected] = InputsAndResults(kernel, example, run);
      ExpectNear(expected, Planned(kernel, inputs));
    }
    EXPECT_TRUE(cut) << example.name;
  }
}

TEST(CudaKernelPlanTest, PaddingThatTheLibraryHasGoesThroughNoScratch) {
  const auto scratch_of = [](const Conv2d& conv, int64_t extent, int64_t result) {
    const KernelTensor x{{DType::kFloat32, {2, 3, extent, extent}}};
    const KernelTensor w{{DType::kFloat32, {4, 3, 3, 3}}};
    const KernelTensor y{{DType::kFloat32, {2, 4, result, result}}};
    return PlanShapes({conv, Pass::Forward(), {x, w}, {y}})->scratch_bytes;
  };
  EXPECT_EQ(scratch_of({.pads = {1, 1, 1, 1}}, 8, 8), 0);
  EXPECT_EQ(scratch_of({.stride = {2, 2}, .pads = {1, 1, 0, 0}}, 8, 4), 0);
  EXPECT_EQ(scratch_of({.stride = {2, 2}, .pads = {0, 0, -1, -1}}, 8, 3), 0);
  EXPECT_GT(scratch_of({.pads = {1, 1, 0, 0}}, 8, 7), 0);
}

TEST(DivisorTest, QuotientsAreThoseOfTheMachine) {
  std::mt19937_64 random(5);
  const auto draw = [&](int bits) {
    return static_cast<int64_t>(random() >> (64 - 1 - random() % static_cast<uint64_t>(bits)));
  };
  for (int k = 0; k < 200000; ++k) {
    const int64_t d = std::max<int64_t>(1, draw(40)), n = draw(45);
    ASSERT_EQ(Divisor::Of(d).Quotient(n), n / d) << n << " / " << d;
    const auto small = static_cast<int32_t>(draw(31));
    ASSERT_EQ(Divisor::Of(d).Quotient(small), small / d) << small << " / " << d;
  }
  for (int64_t d : {1, 2, 3, 7, 641, 0x40000001, 0x7ffffffe, 0x7fffffff}) {
    for (int64_t n : {0, 1, 2, 640, 641, 0x40000000, 0x7ffffffe, 0x7fffffff}) {
      ASSERT_EQ(Divisor::Of(d).Quotient(n), n / d) << n << " / " << d;
      const auto [quotient, rest] = Divisor::Of(d).Divide(static_cast<int32_t>(n));
      ASSERT_EQ(quotient, n / d) << n << " / " << d;
      ASSERT_EQ(rest, n % d) << n << " / " << d;
    }
  }
}

}  // namespace
}  // namespace partita

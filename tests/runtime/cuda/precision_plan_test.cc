// Kernels whose products take factors of fewer bits, carried out on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "runtime/backend/cuda/plan/kernel_steps.h"
#include "runtime/support/tolerance.h"
#include "tests/conformance/not_finite.h"
#include "tests/runtime/cuda/planned_run.h"

namespace partita {
namespace {

const KernelOptions kWays[] = {{Precision::kTf32, false},     {Precision::kTf32, true},
                               {Precision::kFloat16, false},  {Precision::kFloat16, true},
                               {Precision::kBfloat16, false}, {Precision::kBfloat16, true}};

const KernelOptions kWaysInBlocks[] = {{Precision::kFloat32, false, true},
                                       {Precision::kTf32, true, true},
                                       {Precision::kFloat16, false, true},
                                       {Precision::kFloat16, true, true},
                                       {Precision::kBfloat16, true, true}};

std::string NameOf(const KernelOptions& way) {
  return std::string(RowOf(way.precision).name) + (way.channels_last ? " channels last" : "") +
         (way.blocks ? " blocks" : "");
}

OperatorExample ConvolutionExample(const Conv2d& conv, const Shape& x, const Shape& w) {
  return {"conv", conv, {{DType::kFloat32, x}, {DType::kFloat32, w}, {DType::kFloat32, {w[0]}}}};
}

const Pass kConvolutionPasses[] = {Pass::Forward(), Pass::Gradient(0), Pass::Gradient(1)};

// Convolutions of images in blocks of pixels.
std::vector<OperatorExample> ExamplesInBlocks() {
  return {
      ConvolutionExample({.stride = {4, 4}, .pads = {2, 2, 1, 1}}, {2, 3, 30, 31}, {5, 3, 11, 11}),
      ConvolutionExample({.stride = {2, 2}, .pads = {3, 3, 3, 3}}, {2, 3, 15, 16}, {4, 3, 7, 7}),
      ConvolutionExample({.stride = {2, 2}}, {3, 1, 9, 8}, {4, 1, 2, 3}),
      ConvolutionExample({.stride = {3, 2}, .pads = {0, 2, 4, 1}}, {1, 4, 13, 11}, {3, 4, 4, 3}),
      ConvolutionExample({.stride = {1, 3}, .pads = {1, 0, 1, 0}}, {2, 2, 6, 14}, {3, 2, 3, 5}),
      ConvolutionExample({.stride = {2, 1}, .pads = {1, 1, 0, 0}}, {2, 2, 7, 6}, {3, 2, 5, 1})};
}

TEST(CudaPrecisionTest, EveryKernelIsWithinItsPrecisionsTolerance) {
  for (const OperatorExample& example : OperatorExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      const auto [inputs, expected] = InputsAndResults(kernel, example, run);
      for (const KernelOptions& way : kWays) {
        SCOPED_TRACE(NameOf(way) + " " + example.name + ": " + ToString(kernel.signature));
        ExpectNear(expected, Planned(kernel, inputs, way), ToleranceOf(way.precision));
      }
    }
  }
}

TEST(CudaPrecisionTest, BlocksOfPixelsAreChannels) {
  for (const OperatorExample& example : ExamplesInBlocks()) {
    const OperatorRun run(example, DType::kFloat32);
    for (Pass pass : kConvolutionPasses) {
      const WholeKernel kernel = run.KernelOf(pass);
      const auto [inputs, expected] = InputsAndResults(kernel, example, run);
      for (const KernelOptions& way : kWaysInBlocks) {
        SCOPED_TRACE(NameOf(way) + ": " + ToString(kernel.signature));
        const auto plan = PlanShapes(kernel.signature, way);
        ASSERT_TRUE(plan.ok()) << plan.status();
        for (const KernelStep& step : plan->steps) {
          if (const auto* convolution = std::get_if<Convolution>(&step)) {
            EXPECT_EQ(convolution->shape.stride, (std::array<int64_t, 2>{1, 1}));
            EXPECT_EQ(convolution->shape.x[1] % 8, 0);
          }
        }
        ExpectNear(expected, Planned(kernel, inputs, way), ToleranceOf(way.precision));
      }
    }
  }
}

TEST(CudaPrecisionTest, OnlyStridesOverFewChannelsGiveBlocks) {
  const auto plan = [](const Conv2d& conv, const Shape& x, const Shape& w) {
    const OperatorRun run(ConvolutionExample(conv, x, w), DType::kFloat32);
    return PlanShapes(run.KernelOf(Pass::Forward()).signature, kWaysInBlocks[4]).status();
  };
  EXPECT_TRUE(plan({.stride = {2, 2}}, {2, 3, 9, 9}, {4, 3, 3, 3}).ok());
  for (const absl::Status& status :
       {plan({}, {2, 3, 9, 9}, {4, 3, 3, 3}), plan({.stride = {2, 2}}, {2, 8, 9, 9}, {4, 8, 3, 3}),
        plan({.stride = {2, 2}}, {2, 3, 9, 9}, {4, 3, 1, 1}),
        plan({.stride = {2, 2}, .dilation = {2, 2}}, {2, 3, 9, 9}, {4, 3, 3, 3}),
        plan({.stride = {2, 2}, .groups = 2}, {2, 4, 9, 9}, {4, 2, 3, 3})}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  }
}

// Each operand is scaled by what its largest element asks for, which may be infinite.
TEST(CudaPrecisionTest, WhatIsNotFiniteStaysSo) {
  uint64_t places = 1;
  int64_t compared = 0;
  const auto compare = [&](const OperatorExample& example, std::span<const KernelOptions> ways) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      const auto usual = InputsAndResults(kernel, example, run);
      for (const PlantedInputs& planted : WithNotFinite(kernel, usual, places++)) {
        for (const KernelOptions& way : ways) {
          // A gradient by the bias knows no blocks.
          if (way.blocks && !PlanShapes(kernel.signature, way).ok()) continue;
          SCOPED_TRACE(NameOf(way) + " " + example.name + ", " + planted.what + ": " +
                       ToString(kernel.signature));
          compared += ExpectNotFiniteKept(kernel, planted.values.expected,
                                          Planned(kernel, planted.values.inputs, way));
        }
        if (::testing::Test::HasFailure()) return;
      }
    }
  };
  for (const OperatorExample& example : OperatorExamples()) {
    if (std::holds_alternative<Conv2d>(example.attrs) ||
        std::holds_alternative<MatMul>(example.attrs)) {
      compare(example, kWays);
    }
  }
  for (const OperatorExample& example : ExamplesInBlocks()) compare(example, kWaysInBlocks);
  EXPECT_GT(compared, 10000);
}

TEST(CudaPrecisionTest, OnlyKernelsWithProductsDependOnIt) {
  int same = 0, other = 0;
  for (const OperatorExample& example : OperatorExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      const auto exact = PlanShapes(kernel.signature),
                 half = PlanShapes(kernel.signature, kWays[5]);
      ASSERT_TRUE(exact.ok() && half.ok());
      const bool product = std::any_of(exact->steps.begin(), exact->steps.end(), [](auto& step) {
        return std::holds_alternative<Gemm>(step) || std::holds_alternative<Convolution>(step);
      });
      EXPECT_EQ(exact->steps.size() == half->steps.size(), !product) << ToString(kernel.signature);
      ++(product ? other : same);
    }
  }
  EXPECT_GT(same, 50);
  EXPECT_GT(other, 10);
}

// A kernel of two operands and one result, all of whose numbers are `first` times and `second`
// times what they are at random.
struct ScaledKernel {
  ScaledKernel(const OperatorExample& example, Pass pass, double first, double second)
      : run(example, DType::kFloat32), kernel(run.KernelOf(pass)) {
    inputs = InputsAndResults(kernel, example, run).inputs;
    const double factors[] = {first, second};
    for (size_t k = 0; k < 2; ++k) {
      for (float& x : inputs[k].as<float>()) x = static_cast<float>(x * factors[k]);
    }
    expected = ReferenceResults(kernel, inputs);
  }
  // The largest error, relative to the largest element.
  double Error(const KernelOptions& way) const {
    const auto found = Planned(kernel, inputs, way);
    double largest = 0, error = 0;
    for (size_t i = 0; i < expected[0].as<float>().size(); ++i) {
      const double want = expected[0].as<float>()[i], got = found[0].as<float>()[i];
      largest = std::max(largest, std::abs(want));
      error = std::isfinite(got) ? std::max(error, std::abs(want - got)) : HUGE_VAL;
    }
    return error / largest;
  }

  OperatorRun run;
  WholeKernel kernel;
  std::vector<TestTensor> inputs, expected;
};

TEST(CudaPrecisionTest, Float16KeepsWhatIsFarFromItsRange) {
  const OperatorExample conv{"conv",
                             Conv2d{.pads = {1, 1, 1, 1}},
                             {{DType::kFloat32, {4, 8, 9, 9}}, {DType::kFloat32, {6, 8, 3, 3}}}};
  const OperatorExample matmul{
      "matmul", MatMul{}, {{DType::kFloat32, {12, 40}}, {DType::kFloat32, {10, 40}}}};
  for (const OperatorExample& example : {conv, matmul}) {
    for (Pass pass : kConvolutionPasses) {
      for (double scale : {1.0, 1e-9, 1e-5, 1e6}) {
        const ScaledKernel kernel(example, pass, 1e3, scale);
        for (const KernelOptions& way : {kWays[2], kWays[3]}) {
          EXPECT_LT(kernel.Error(way), 2e-3)
              << NameOf(way) << " " << ToString(kernel.kernel.signature) << " times " << scale;
        }
      }
    }
  }
}

// All products of one sign, so that the sums are as large as they can be.
TEST(CudaPrecisionTest, SumsOfAConvolutionStayWithinFloat16) {
  const OperatorExample example{
      "conv", Conv2d{}, {{DType::kFloat32, {8, 2, 50, 50}}, {DType::kFloat32, {2, 2, 3, 3}}}};
  for (Pass pass : kConvolutionPasses) {
    ScaledKernel kernel(example, pass, 1, 1);
    for (TestTensor& input : kernel.inputs) {
      std::fill(input.as<float>().begin(), input.as<float>().end(), 1.999f);
    }
    kernel.expected = ReferenceResults(kernel.kernel, kernel.inputs);
    EXPECT_LT(kernel.Error(kWays[3]), 2e-3) << ToString(kernel.kernel.signature);
  }
}

// Tiles of 32 rows would be nearly empty.
TEST(CudaPrecisionTest, ImagesOfFewChannelsAreTransposedElementByElement) {
  for (const int64_t channels : {3, 16}) {
    const KernelTensor x{{DType::kFloat32, {2, channels, 20, 20}}};
    const KernelTensor w{{DType::kFloat32, {16, channels, 3, 3}}};
    const KernelTensor y{{DType::kFloat32, {2, 16, 18, 18}}};
    const auto plan = PlanShapes({Conv2d{}, Pass::Forward(), {x, w}, {y}}, kWays[5]);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto tiled = std::count_if(plan->steps.begin(), plan->steps.end(), [](const auto& step) {
      return std::holds_alternative<TransposeWork>(step);
    });
    EXPECT_EQ(tiled, channels == 3 ? 1 : 3);
  }
}

TEST(CudaPrecisionTest, TensorCoresAreGivenChannelsLastFirstAndFloat32IsTheLastResort) {
  EXPECT_EQ(WaysToPlan(Precision::kFloat32),
            (std::vector<KernelOptions>{{}, {Precision::kFloat32, false, true}}));
  for (Precision precision : {Precision::kTf32, Precision::kFloat16, Precision::kBfloat16}) {
    const std::vector<KernelOptions> ways = WaysToPlan(precision);
    EXPECT_EQ(ways.size(), 4u);
    EXPECT_EQ(ways.front(), (KernelOptions{precision, precision != Precision::kTf32}));
    EXPECT_EQ(ways[2], (KernelOptions{precision, true, true}));
    EXPECT_EQ(ways.back(), KernelOptions{});
  }
}

}  // namespace
}  // namespace partita

// A kernel's plan is made once and serves launches at any addresses; elements are counted in 32 bits
// where these suffice.
#include "runtime/backend/cuda/plan/launch_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/conformance/kernel_examples.h"
#include "tests/runtime/cuda/host_run.h"
#include "tests/runtime/cuda/planned_run.h"

namespace partita {
namespace {

const KernelTensor kTensor{{DType::kFloat32, {4, 6}}};
const KernelSignature kRelu{Relu{}, Pass::Forward(), {kTensor}, {kTensor}};
const KernelSignature kDropout{Dropout{.ratio = 0.5}, Pass::Forward(), {kTensor}, {kTensor}};

// A piece of 4 rows of 8, from a row on.
TensorArgument RowsFrom(int64_t first, void* data) {
  return {data, Box({{first, first + 4}, {0, 6}}), {8, 6}};
}

absl::Status RunLaunch(const LaunchPlan& plan, const KernelArguments& arguments,
                       const LaunchMemory& memory, HostIndex index = HostIndex::kChosen) {
  return plan.ForEachStep(arguments, memory, [&](const auto& work) {
    RunOnHost(work, index);
    return absl::OkStatus();
  });
}

// The second launch counts elements in 64 bits.
TEST(LaunchPlanTest, OnePlanServesLaunchesAtSeveralAddresses) {
  int compared = 0;
  for (const OperatorExample& example : KernelExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
      const auto [inputs, expected] = InputsAndResults(kernel, example, run);
      std::vector<TestTensor> own = inputs, others = inputs;
      Launched first = LaunchOf(kernel, own), second = LaunchOf(kernel, others);
      const auto plan =
          LaunchPlan::Make(kernel.signature, {first.in, first.out, ExampleStep(), kExampleKey}, {});
      ASSERT_TRUE(plan.ok()) << plan.status();
      for (Launched* launch : {&first, &second}) {
        const KernelArguments arguments{launch->in, launch->out, ExampleStep(), kExampleKey};
        const auto index = launch == &first ? HostIndex::kChosen : HostIndex::kLarge;
        ScratchMemory scratch(plan->steps().scratch_bytes);
        ASSERT_TRUE(plan->Suits(arguments));
        ASSERT_TRUE(RunLaunch(*plan, arguments, scratch.data(), index).ok());
        EXPECT_TRUE(scratch.intact());
      }
      ExpectNear(expected, first.results);
      EXPECT_EQ(first.results, second.results);
      ++compared;
    }
  }
  EXPECT_GT(compared, 150);
}

TEST(LaunchPlanTest, TheStepsNumbersAreTheLaunchs) {
  std::vector<float> w = {1, 2}, g = {4, 8}, v = {0, 0}, w_next(2), v_next(2);
  const KernelTensor two{{DType::kFloat32, {2}}};
  const auto argument = [](std::vector<float>& data) {
    return TensorArgument{data.data(), Box({{0, 2}}), {2}};
  };
  const std::vector<TensorArgument> in = {argument(w), argument(g), argument(v)};
  const std::vector<TensorArgument> out = {argument(w_next), argument(v_next)};
  const auto plan = LaunchPlan::Make({Sgd{}, Pass::Forward(), {two, two, two}, {two, two}}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (double rate : {0.5, 0.25}) {
    StepArguments step;
    step.learning_rate = rate;
    ASSERT_TRUE(RunLaunch(*plan, {in, out, step, 0}, nullptr).ok());
    EXPECT_EQ(w_next, (std::vector<float>{static_cast<float>(1 - 4 * rate),
                                          static_cast<float>(2 - 8 * rate)}));
  }
  StepNumbers in_memory;
  in_memory.rate = 0.125;
  ASSERT_TRUE(RunLaunch(*plan, {in, out, {}, 0}, {nullptr, &in_memory}).ok());
  EXPECT_EQ(w_next, (std::vector<float>{0.5, 1}));
}

TEST(LaunchPlanTest, OnlyStepsThatDependOnAPlaceAreBoundToIt) {
  std::vector<float> x(24), y(24);
  const std::vector<TensorArgument> in = {RowsFrom(0, x.data())}, out = {RowsFrom(0, y.data())};
  const std::vector<TensorArgument> in2 = {RowsFrom(4, x.data())}, out2 = {RowsFrom(4, y.data())};
  const KernelArguments first{in, out, {}, 1}, second{in2, out2, {}, 1}, other{in, out, {}, 2};
  const auto relu = LaunchPlan::Make(kRelu, first, {});
  ASSERT_TRUE(relu.ok()) << relu.status();
  EXPECT_TRUE(relu->Suits(second));
  EXPECT_TRUE(relu->Suits(other));
  const auto dropout = LaunchPlan::Make(kDropout, first, {});
  ASSERT_TRUE(dropout.ok()) << dropout.status();
  EXPECT_TRUE(dropout->Suits(first));
  EXPECT_FALSE(dropout->Suits(second));
  EXPECT_FALSE(dropout->Suits(other));
}

TEST(LaunchPlansTest, APlanForEachPlaceIsMadeOnce) {
  std::vector<float> x(24), y(24);
  const std::vector<TensorArgument> in = {RowsFrom(0, x.data())}, out = {RowsFrom(0, y.data())};
  const std::vector<TensorArgument> in2 = {RowsFrom(4, y.data())}, out2 = {RowsFrom(4, x.data())};
  const KernelArguments first{in, out, {}, 1}, second{in2, out2, {}, 1};
  const auto relu = *LaunchPlans::Make(kRelu, {});
  EXPECT_EQ(*relu->Of(first), *relu->Of(second));
  EXPECT_EQ(&(*relu->Of(first))->steps(), &relu->whole());
  const auto dropout = *LaunchPlans::Make(kDropout, {});
  const LaunchPlan* const of_first = *dropout->Of(first);
  const LaunchPlan* const of_second = *dropout->Of(second);
  EXPECT_NE(of_first, of_second);
  EXPECT_EQ(*dropout->Of(first), of_first);
  EXPECT_EQ(*dropout->Of(second), of_second);
  const KernelArguments without_outputs{in, {}, {}, 0};
  EXPECT_EQ(relu->Of(without_outputs).status().code(), absl::StatusCode::kInternal);
}

TEST(LaunchPlanTest, OtherNumbersOfPiecesAreAnErrorThatSaysSo) {
  std::vector<float> x(24);
  const std::vector<TensorArgument> in = {RowsFrom(0, x.data())};
  const KernelArguments without_outputs{in, {}, {}, 0};
  EXPECT_FALSE(LaunchPlan::Make(kRelu, {})->Suits(without_outputs));
  const auto plan = LaunchPlan::Make(kRelu, without_outputs, {});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInternal);
  EXPECT_NE(plan.status().message().find("0 outputs"), std::string::npos) << plan.status();
}

TEST(LaunchPlanTest, AStepThatFailsEndsTheLaunch) {
  std::vector<float> x(24), y(24);
  const std::vector<TensorArgument> in = {RowsFrom(0, x.data())}, out = {RowsFrom(0, y.data())};
  const auto plan = LaunchPlan::Make(kRelu, {});
  const absl::Status status = plan->ForEachStep(
      {in, out, {}, 0}, nullptr, [](const auto&) { return absl::UnavailableError("no device"); });
  EXPECT_EQ(status, absl::UnavailableError("no device"));
}

// Functors in steps of plans.
struct SeenFunctors {
  std::set<size_t> elements, reductions;

  void Add(const KernelStep& step) {
    if (const auto* work = std::get_if<ElementWork>(&step)) elements.insert(work->functor.index());
    if (const auto* work = std::get_if<ReductionWork>(&step)) {
      reductions.insert(work->functor.index());
    }
    const auto* convolution = std::get_if<Convolution>(&step);
    if (convolution != nullptr && convolution->epilogue.count > 0) {
      elements.insert(convolution->epilogue.functor.index());
    }
  }
};

// A pointer that a functor's VisitPointers leaves out shows only where the functor runs: the kernels
// of the other tests have all of them.
TEST(LaunchPlanTest, TheKernelsOfTheTestsHaveAllFunctors) {
  SeenFunctors seen;
  // Of parts of tensors, and of large planes, in tests of their own
  for (const ElementFunctor& functor :
       {ElementFunctor(DropoutElement()), ElementFunctor(MaxPoolElement()),
        ElementFunctor(MaxPoolPlaceElement()), ElementFunctor(MaxPoolGradientElement())}) {
    seen.elements.insert(functor.index());
  }
  for (const OperatorExample& example : KernelExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      for (const PrecisionRow& row : kPrecisions) {
        for (const KernelOptions& options : WaysToPlan(row.precision)) {
          const auto plan = PlanShapes(kernel.signature, options);
          if (!plan.ok()) continue;
          for (const KernelStep& step : plan->steps) seen.Add(step);
        }
      }
    }
  }
  EXPECT_EQ(seen.elements.size(), std::variant_size_v<ElementFunctor>);
  EXPECT_EQ(seen.reductions.size(), std::variant_size_v<ReductionFunctor>);
}

TEST(WithIndexTest, LargeCountsHave64Bits) {
  const auto bytes = [](int64_t count) {
    return WithIndex(count, [](auto zero) { return sizeof(zero); });
  };
  EXPECT_EQ(bytes(0), 4u);
  EXPECT_EQ(bytes(kMostSmallCount), 4u);
  EXPECT_EQ(bytes(kMostSmallCount + 1), 8u);
  EXPECT_LT(8 * kMostSmallCount - 1, int64_t{1} << 31);
}

TEST(WithIndexTest, BothTypesConvertToTheSameBits) {
  int compared = 0;
  for (const OperatorExample& example : OperatorExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      if (WorkOf(kernel.signature).multiply_adds == 0) continue;
      SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
      const auto inputs = InputsAndResults(kernel, example, run).inputs;
      const KernelOptions options = WaysToPlan(Precision::kFloat16)[0];
      EXPECT_EQ(Planned(kernel, inputs, options, HostIndex::kChosen),
                Planned(kernel, inputs, options, HostIndex::kLarge));
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

// Only pointers to elements in order count.
TEST(ElementWorkTest, FourNeighboursAreTakenAtOnceWhereAllTheirAddressesAreMultiplesOf16Bytes) {
  alignas(16) float data[16] = {};
  EXPECT_TRUE(SuitsVectors(ReluElement{data, data + 4}));
  EXPECT_FALSE(SuitsVectors(ReluElement{data, data + 5}));
  EXPECT_FALSE(SuitsVectors(ReluElement{data + 2, data + 4}));
  const ElementChannels long_rows{Divisor::Of(4), Divisor::Of(2)};
  const ElementChannels short_rows{Divisor::Of(3), Divisor::Of(2)};
  EXPECT_TRUE(SuitsVectors(BiasElement{data + 1, data + 4, long_rows}));
  EXPECT_FALSE(SuitsVectors(BiasElement{data, data + 1, long_rows}));
  EXPECT_FALSE(SuitsVectors(BiasElement{data, data + 4, short_rows}));
  EXPECT_FALSE(SuitsVectors(FillElement{data}));
}

TEST(ElementChannelsTest, NeighboursLieInTwoRows) {
  for (int64_t inner : {4, 5, 7, 16}) {
    for (int64_t channels : {1, 2, 3}) {
      const ElementChannels of{Divisor::Of(inner), Divisor::Of(channels)};
      ASSERT_TRUE(of.HoldInTwoRows(4));
      for (int32_t i = 0; i < 2 * inner * channels; ++i) {
        const auto at = of.From(i);
        for (int32_t k = 0; k < 4; ++k) {
          EXPECT_EQ(k < at.of_first ? at.first : at.second, of.Of(i + k)) << i << ' ' << k;
          EXPECT_EQ(of.Of(i + k), (i + k) / inner % channels);
        }
      }
    }
  }
}

TEST(ElementWorkTest, BlocksAndPlacesFollowFromTheFunctorAndTheCount) {
  EXPECT_EQ(ElementWork::Of(1, FillElement{}).blocks, 1u);
  EXPECT_EQ(ElementWork::Of(257, FillElement{}).blocks, 2u);
  EXPECT_EQ(ElementWork::Of(1025, ReluElement{}).blocks, 2u);  // four elements for each thread
  EXPECT_EQ(ElementWork::Of(int64_t{1} << 40, ReluElement{}).blocks, 4096u);
  EXPECT_EQ(ElementWork::Of(100, ReluElement{}).places, 100);
  EXPECT_EQ(ElementWork::Of(100, ReluElement{}, 5000).places, 5000);
}

// Few windows over a large tensor: places are of the tensor.
TEST(ElementWorkTest, IndicesOfPoolingReachAllOfItsInput) {
  const KernelTensor x{{DType::kFloat32, {1, 1, 40000, 40000}}}, y{{DType::kFloat32, {1, 1, 1, 1}}};
  const Pool2d pool{.function = "average", .kernel = {40000, 40000}, .stride = {40000, 40000}};
  const auto plan = PlanShapes({pool, Pass::Forward(), {x}, {y}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto& work = std::get<ElementWork>(plan->steps.at(0));
  EXPECT_EQ(work.count, 1);
  EXPECT_GE(work.places, int64_t{40000} * 40000);
}

}  // namespace
}  // namespace partita

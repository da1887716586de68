// Which algorithms of cuDNN and cuBLASLt are taken, by fake libraries, memory and clocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/backend/cuda/conv_kernel.h"
#include "runtime/backend/cuda/matmul_kernel.h"
#include "runtime/backend/cuda/planned_kernel.h"
#include "tests/runtime/cuda/fake_libraries.h"

namespace partita {
namespace {

ConvolutionShape SomeConvolution(ConvolutionPass pass = ConvolutionPass::kForward) {
  ConvolutionShape shape;
  shape.pass = pass;
  shape.x = {2, 3, 8, 8};
  shape.w = {4, 3, 3, 3};
  shape.y = {2, 4, 8, 8};
  shape.pad = {1, 1};
  return shape;
}

constexpr GemmShape kProduct{false, false, 8, 4, 2, 8, 2, 8};

// Libraries on which algorithm number k takes (k - fastest)^2 milliseconds.
struct Libraries {
  explicit Libraries(AlgorithmStore* store, int fastest = 0)
      : trials(fastest == 0 ? FakeTrials() : FakeTrials([this, fastest] {
          const int distance = calls.last_algorithm - fastest;
          return static_cast<double>(distance * distance);
        })),
        search{store, &trials, "fake"},
        cudnn(FakeCudnn(&calls, search)),
        blas(FakeCublasLt(&calls, search)) {}

  // What a convolution and a product run with.
  FakeCalls Convolve(const ConvolutionShape& shape) {
    const auto runner = ConvolutionRunner::Prepare(shape, cudnn.get());
    EXPECT_TRUE(runner.ok()) << runner.status();
    EXPECT_EQ((*runner)->workspace_bytes(), static_cast<int64_t>(kFittingWorkspace));
    std::vector<float> data(1024);
    Convolution convolution;
    convolution.shape = shape;
    convolution.x = convolution.w = convolution.y = data.data();
    EXPECT_TRUE((*runner)->Enqueue(convolution, nullptr, nullptr).ok());
    return calls;
  }
  FakeCalls Multiply() {
    const auto runner = GemmRunner::Prepare(kProduct, blas.get());
    EXPECT_TRUE(runner.ok()) << runner.status();
    alignas(64) float data[64] = {};
    EXPECT_TRUE((*runner)->Enqueue({kProduct, data, data, nullptr, data}, nullptr, nullptr).ok());
    return calls;
  }

  FakeCalls calls;
  FakeTrials trials;
  const AlgorithmSearch search;
  std::unique_ptr<Cudnn> cudnn;
  std::unique_ptr<CublasLt> blas;
};

TEST(AlgorithmChoiceTest, WhereNothingCanBeMeasuredTheFirstThatIsRepeatableAndFitsIsKept) {
  for (auto pass : {ConvolutionPass::kForward, ConvolutionPass::kData, ConvolutionPass::kFilter}) {
    AlgorithmStore store;
    Libraries libraries(&store);
    for (int k = 0; k < 3; ++k) {
      const FakeCalls calls = libraries.Convolve(SomeConvolution(pass));
      EXPECT_EQ(calls.guesses, 1);
      EXPECT_EQ(calls.last_algorithm, kFirstFittingAlgorithm);
      EXPECT_EQ(calls.last_workspace, kFittingWorkspace);
      EXPECT_EQ(calls.last_math, CUDNN_FMA_MATH);
    }
  }
  AlgorithmStore store;
  Libraries libraries(&store);
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(libraries.Multiply().last_algorithm, kFirstProduct);
    EXPECT_EQ(libraries.calls.guesses, 1);
    EXPECT_EQ(libraries.calls.last_workspace, kFittingWorkspace);
  }
}

TEST(AlgorithmChoiceTest, TheFastestIsTakenAndMeasuredOnceForAllDevicesOfAStore) {
  AlgorithmStore store;
  Libraries libraries(&store, 4);
  for (int k = 0; k < 2; ++k) EXPECT_EQ(libraries.Convolve(SomeConvolution()).last_algorithm, 4);
  EXPECT_EQ(libraries.trials.measured(), kLastAlgorithm - kFirstFittingAlgorithm + 1);
  Libraries products(&store, 43);
  for (int k = 0; k < 2; ++k) EXPECT_EQ(products.Multiply().last_algorithm, 43);
  EXPECT_EQ(products.trials.measured(), kLastProduct - kFirstProduct + 1);

  // Another device, in another process, which would measure otherwise.
  AlgorithmStore read(store.Added());
  EXPECT_EQ(store.Added().size(), 2u);
  Libraries other(&read, 5);
  EXPECT_EQ(other.Convolve(SomeConvolution()).last_algorithm, 4);
  EXPECT_EQ(other.Multiply().last_algorithm, 43);
  EXPECT_EQ(other.calls.guesses + other.trials.measured(), 0);
  EXPECT_TRUE(read.Added().empty());
}

// Also where both are in one store, in either order.
TEST(AlgorithmChoiceTest, WhatMayDifferFromRunToRunIsTakenOnlyWhereItMay) {
  ConvolutionShape changing = SomeConvolution();
  changing.deterministic = false;
  GemmShape in_any_order = kProduct;
  in_any_order.deterministic = false;
  for (const bool first : {false, true}) {
    AlgorithmStore store;
    Libraries libraries(&store, kChangingAlgorithm);
    for (const bool deterministic : {first, !first, first}) {
      const int taken =
          libraries.Convolve(deterministic ? SomeConvolution() : changing).last_algorithm;
      EXPECT_EQ(taken, deterministic ? kFirstFittingAlgorithm : kChangingAlgorithm);
      const auto runner =
          GemmRunner::Prepare(deterministic ? kProduct : in_any_order, libraries.blas.get());
      ASSERT_TRUE(runner.ok()) << runner.status();
    }
    EXPECT_EQ(store.Added().size(), 4u);
  }
  for (const GemmShape& shape : {kProduct, in_any_order}) {
    AlgorithmStore store;
    Libraries libraries(&store);
    ASSERT_TRUE(GemmRunner::Prepare(shape, libraries.blas.get()).ok());
    EXPECT_EQ((libraries.calls.sums & CUBLASLT_REDUCTION_SCHEME_INPLACE) == 0, shape.deterministic);
    EXPECT_NE(libraries.calls.sums & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 0u);
  }
}

TEST(AlgorithmChoiceTest, AKernelIsAsDeterministicAsItsSignature) {
  const KernelTensor x{{DType::kFloat32, {2, 3, 8, 8}}}, w{{DType::kFloat32, {4, 3, 3, 3}}};
  const KernelTensor y{{DType::kFloat32, {2, 4, 8, 8}}};
  const KernelSignature signature{Conv2d{.pads = {1, 1, 1, 1}}, Pass::Forward(), {x, w}, {y}};
  for (const bool deterministic : {true, false}) {
    AlgorithmStore store;
    FakeCalls calls;
    auto trials = std::make_unique<FakeTrials>(
        [&calls] { return calls.last_algorithm == kChangingAlgorithm ? 1.0 : 2.0; });
    auto handles = std::make_shared<VendorHandles>(&store, std::move(trials), "fake");
    handles->Use(FakeCudnn(&calls, handles->search()), nullptr);
    const auto kernel = PlannedKernel::Prepare(WithDeterminism(signature, deterministic), handles);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    ConvolutionShape shape = SomeConvolution();
    shape.deterministic = deterministic;
    EXPECT_THAT(store.Find("fake", WorkOf(shape)).value_or(""),
                ::testing::StartsWith(deterministic ? "algorithm=3 " : "algorithm=1 "));
  }
}

TEST(AlgorithmChoiceTest, WhatTheLibraryDoesNotKnowIsMeasuredAgainAndReplaced) {
  const std::string convolution = WorkOf(SomeConvolution()), product = WorkOf(kProduct);
  const std::string words = " 0 0 0 0 0 0 ffffffffffffffff";
  for (const auto& [choice, product_choice] :
       std::initializer_list<std::pair<std::string, std::string>>{
           {"", ""},
           {"algorithm=9 math=3 workspace=0 fused=0 keeps_nan=1", "workspace=1048576 9" + words},
           {"algorithm=2 math=3 workspace=268435456 fused=0 keeps_nan=1",
            "workspace=100 2b" + words},
           {"algorithm=5 math=3 workspace=99999999999 fused=0 keeps_nan=1",
            "workspace=1048576 x" + words},
           {"algorithm=5 math=3 workspace=1048576 fused=0", "workspace=1048576 x" + words},
           {"algorithm=5 math=3 workspace=1048576 fused=1 keeps_nan=1", "workspace=1048576 2b"}}) {
    AlgorithmStore store({{"fake", convolution, choice}, {"fake", product, product_choice}});
    Libraries libraries(&store, 4);
    EXPECT_EQ(libraries.Convolve(SomeConvolution()).last_algorithm, 4) << choice;
    (void)libraries.Multiply();
    EXPECT_EQ(libraries.calls.guesses, 2) << choice;
    EXPECT_EQ(store.Added().size(), 2u);
    (void)libraries.Convolve(SomeConvolution());
    EXPECT_EQ(libraries.calls.guesses, 2);
  }
}

// The fake library checks that a measured product of float16 is multiplied by what is not 0.
TEST(AlgorithmChoiceTest, ProductsOfFloat16AreMeasuredWithFactors) {
  AlgorithmStore store;
  Libraries libraries(&store, 44);
  GemmShape shape{false, false, 8, 4, 8, 8, 8, 8};
  shape.precision = Precision::kFloat16;
  EXPECT_TRUE(GemmRunner::Prepare(shape, libraries.blas.get()).ok());
  EXPECT_EQ(libraries.trials.measured(), kLastProduct - kFirstProduct + 1);
  EXPECT_EQ(libraries.calls.last_algorithm, kLastProduct);
}

TEST(AlgorithmChoiceTest, TensorCoresAreTakenOnlyWhereFactorsMayBeRounded) {
  AlgorithmStore store;
  Libraries libraries(&store);
  ConvolutionShape shape = SomeConvolution();
  EXPECT_EQ(libraries.Convolve(shape).last_math, CUDNN_FMA_MATH);
  shape.precision = Precision::kTf32;
  EXPECT_EQ(libraries.Convolve(shape).last_math, CUDNN_TENSOR_OP_MATH);
}

// Algorithms 5 of the gradients are Winograd's by transforms of whole tensors.
TEST(AlgorithmChoiceTest, LargeWindowsAreNotTransformedByWinograd) {
  for (auto pass : {ConvolutionPass::kData, ConvolutionPass::kFilter}) {
    ConvolutionShape shape = SomeConvolution(pass);
    AlgorithmStore store;
    Libraries libraries(&store, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED);
    EXPECT_EQ(libraries.Convolve(shape).last_algorithm, 5);
    shape.w = {4, 3, 5, 5};
    shape.pad = {2, 2};
    EXPECT_EQ(libraries.Convolve(shape).last_algorithm, 4);
  }
}

TEST(AlgorithmChoiceTest, AnAlgorithmThatMakesNumbersOfWhatIsNoneIsNotTaken) {
  for (auto pass : {ConvolutionPass::kForward, ConvolutionPass::kData, ConvolutionPass::kFilter}) {
    AlgorithmStore store;
    Libraries libraries(&store, 4);
    libraries.calls.cutting_off = 4;
    const int taken = libraries.Convolve(SomeConvolution(pass)).last_algorithm;
    EXPECT_EQ(taken, 3);
    const auto choice = store.Find("fake", WorkOf(SomeConvolution(pass)));
    EXPECT_TRUE(absl::EndsWith(choice.value_or(""), " keeps_nan=1")) << choice.value_or("");
  }
}

TEST(AlgorithmChoiceTest, WithoutAnActivationOneAlgorithmOnlyTakesTheBias) {
  ConvolutionShape shape = SomeConvolution();
  shape.bias = true;
  for (bool relu : {false, true}) {
    shape.relu = relu;
    AlgorithmStore store(
        {{"fake", WorkOf(shape), "algorithm=5 math=3 workspace=1048576 fused=1 keeps_nan=1"}});
    Libraries libraries(&store, 4);
    // What follows it is a kernel, which there is no GPU for.
    libraries.trials.IgnoreErrors();
    const auto runner = ConvolutionRunner::Prepare(shape, libraries.cudnn.get());
    ASSERT_TRUE(runner.ok()) << runner.status();
    // Without, the stored choice is of no use.
    EXPECT_EQ(libraries.calls.guesses, relu ? 0 : 1);
    EXPECT_EQ(libraries.calls.fused, 0);
    EXPECT_EQ(libraries.trials.measured(), relu ? 0 : kLastAlgorithm - kFirstFittingAlgorithm + 1);
  }
}

// Whether a kernel runs in TF32 channels last is told from what it takes in scratch memory.
TEST(AlgorithmChoiceTest, AConvolutionsOrderIsTheOneInWhichTheWholeKernelIsFaster) {
  const KernelTensor x{{DType::kFloat32, {2, 3, 8, 8}}}, w{{DType::kFloat32, {4, 3, 3, 3}}};
  const KernelTensor y{{DType::kFloat32, {2, 4, 8, 8}}};
  const KernelSignature signature =
      InPrecision({Conv2d{.pads = {1, 1, 1, 1}}, Pass::Forward(), {x, w}, {y}}, Precision::kTf32);
  for (bool last : {false, true}) {
    AlgorithmStore store;
    // Three algorithms of each order, then both orders of the whole kernel.
    int asked = 0;
    auto trials = std::make_unique<FakeTrials>([&asked, last] {
      ++asked;
      return asked <= 6 ? 1.0 : asked == (last ? 8 : 7) ? 2.0 : 3.0;
    });
    trials->IgnoreErrors();
    FakeCalls calls;
    auto handles = std::make_shared<VendorHandles>(&store, std::move(trials), "fake");
    handles->Use(FakeCudnn(&calls, handles->search()), nullptr);
    for (int k = 0; k < 2; ++k) {
      const auto kernel = PlannedKernel::Prepare(signature, handles);
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      const int64_t least = static_cast<int64_t>(kFittingWorkspace) + kScratchAlignment;
      EXPECT_EQ((*kernel)->scratch_bytes() > least, last);
    }
    EXPECT_EQ(asked, 8);
    EXPECT_EQ(store.Find("fake", KernelWorkOf(signature)),
              last ? "channels_last" : "channels_second");
  }
}

// Descriptors that a library refuses, and how it says so.
struct Refusal {
  cudnnStatus_t code;
  std::optional<cudnnTensorFormat_t> format;
  std::optional<cudnnDataType_t> type;
};

std::unique_ptr<Cudnn> RefusingCudnn(FakeCalls* calls, const AlgorithmSearch& search,
                                     const Refusal& refusal) {
  auto cudnn = FakeCudnn(calls, search);
  static Refusal given;
  given = refusal;
  static const auto describe = cudnn->f.cudnnSetTensor4dDescriptor;
  cudnn->f.cudnnSetTensor4dDescriptor = [](cudnnTensorDescriptor_t d, cudnnTensorFormat_t format,
                                           cudnnDataType_t type, int n, int c, int h, int k) {
    return format == given.format || type == given.type ? given.code
                                                        : describe(d, format, type, n, c, h, k);
  };
  return cudnn;
}

// Libraries say so in many ways.
TEST(AlgorithmChoiceTest, AnOrderThatTheLibraryRefusesIsLeftOut) {
  const KernelTensor x{{DType::kFloat32, {2, 3, 8, 8}}}, w{{DType::kFloat32, {4, 3, 3, 3}}};
  const KernelTensor y{{DType::kFloat32, {2, 4, 8, 8}}};
  const KernelSignature signature{Conv2d{.pads = {1, 1, 1, 1}}, Pass::Forward(), {x, w}, {y}};
  for (const auto code :
       {CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_INTERNAL_ERROR}) {
    AlgorithmStore store;
    FakeCalls calls;
    auto handles = std::make_shared<VendorHandles>(&store, std::make_unique<FakeTrials>(), "fake");
    handles->Use(RefusingCudnn(&calls, handles->search(), {code, CUDNN_TENSOR_NHWC, std::nullopt}),
                 nullptr);
    for (const Precision precision : {Precision::kTf32, Precision::kBfloat16}) {
      const auto kernel = PlannedKernel::Prepare(InPrecision(signature, precision), handles);
      EXPECT_TRUE(kernel.ok()) << kernel.status();
      EXPECT_EQ((*kernel)->note(), "");
    }
  }
}

TEST(AlgorithmChoiceTest, AKernelThatIsInFloat32InsteadSaysWhyAndLackOfMemoryIsNoReason) {
  const KernelTensor x{{DType::kFloat32, {2, 3, 8, 8}}}, w{{DType::kFloat32, {4, 3, 3, 3}}};
  const KernelTensor y{{DType::kFloat32, {2, 4, 8, 8}}};
  const KernelSignature signature = InPrecision(
      {Conv2d{.pads = {1, 1, 1, 1}}, Pass::Forward(), {x, w}, {y}}, Precision::kBfloat16);
  for (const auto code : {CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_ALLOC_FAILED}) {
    AlgorithmStore store;
    FakeCalls calls;
    auto handles = std::make_shared<VendorHandles>(&store, std::make_unique<FakeTrials>(), "fake");
    handles->Use(
        RefusingCudnn(&calls, handles->search(), {code, std::nullopt, CUDNN_DATA_BFLOAT16}),
        nullptr);
    const auto kernel = PlannedKernel::Prepare(signature, handles);
    if (code == CUDNN_STATUS_ALLOC_FAILED) {
      EXPECT_EQ(kernel.status().code(), absl::StatusCode::kResourceExhausted) << kernel.status();
    } else {
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      EXPECT_THAT((*kernel)->note(),
                  ::testing::StartsWith("compute in float32 instead of bfloat16: cuDNN, "));
    }
  }
}

TEST(AlgorithmChoiceTest, AKernelWithoutConvolutionsHasOneOrder) {
  const KernelTensor x{{DType::kFloat32, {2, 3}}}, w{{DType::kFloat32, {4, 3}}};
  const KernelTensor y{{DType::kFloat32, {2, 4}}};
  AlgorithmStore store;
  FakeCalls calls;
  auto handles = std::make_shared<VendorHandles>(&store, std::make_unique<FakeTrials>(), "fake");
  handles->Use(nullptr, FakeCublasLt(&calls, handles->search()));
  const KernelSignature product{MatMul{.transposed = true}, Pass::Forward(), {x, w}, {y}};
  EXPECT_TRUE(PlannedKernel::Prepare(InPrecision(product, Precision::kBfloat16), handles).ok());
  EXPECT_EQ(store.Added().size(), 1u);
}

TEST(AlgorithmStoreTest, TheFirstChoiceStaysAndWhatIsNewIsTold) {
  AlgorithmStore store({{"gpu", "work", "one"}});
  EXPECT_EQ(store.Add({"gpu", "work", "two"}), "one");
  EXPECT_EQ(store.Add({"other gpu", "work", "two"}), "two");
  EXPECT_EQ(store.Find("gpu", "work"), "one");
  EXPECT_EQ(store.Find("gpu", "other work"), std::nullopt);
  ASSERT_EQ(store.Added().size(), 1u);
  EXPECT_EQ(store.Added()[0].device, "other gpu");
  store.Replace({"gpu", "work", "three"});
  EXPECT_EQ(store.Find("gpu", "work"), "three");
  EXPECT_EQ(store.Added().size(), 2u);
}

}  // namespace
}  // namespace partita

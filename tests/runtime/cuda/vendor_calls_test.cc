// The calls to cuDNN and cuBLASLt, answered by fake libraries that compute on the host what their
// descriptors say.
#include <gtest/gtest.h>

#include <memory>

#include "runtime/backend/cuda/conv_kernel.h"
#include "runtime/backend/cuda/matmul_kernel.h"
#include "runtime/support/tolerance.h"
#include "tests/conformance/kernel_examples.h"
#include "tests/runtime/cuda/fake_libraries.h"
#include "tests/runtime/cuda/host_run.h"

namespace partita {
namespace {

// Memory for floats at a multiple of 256 bytes, as devices have it.
class AlignedFloats {
 public:
  explicit AlignedFloats(const TestTensor& tensor) : AlignedFloats(tensor.bytes.size()) {
    std::copy(tensor.bytes.begin(), tensor.bytes.end(), data_);
  }
  explicit AlignedFloats(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(::operator new(bytes + 1, std::align_val_t{256}))) {}
  AlignedFloats(AlignedFloats&& other) : bytes_(other.bytes_), data_(other.data_) {
    other.data_ = nullptr;
  }
  ~AlignedFloats() { ::operator delete(data_, std::align_val_t{256}); }
  void* data() const { return bytes_ == 0 ? nullptr : data_; }
  void CopyTo(TestTensor& tensor) const { std::copy(data_, data_ + bytes_, tensor.bytes.begin()); }

 private:
  size_t bytes_;
  std::byte* data_;
};

// Carries out plans: products and convolutions through the fake libraries, the rest on the host.
class FakeDevice {
 public:
  std::vector<TestTensor> Run(const WholeKernel& whole, const std::vector<TestTensor>& inputs,
                              const KernelOptions& options = {}) {
    std::vector<AlignedFloats> memory;
    std::vector<TensorArgument> in, out;
    memory.reserve(inputs.size() + whole.signature.outputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) {
      memory.emplace_back(inputs[k]);
      in.push_back({memory.back().data(), whole.input_boxes[k], whole.input_shapes[k]});
    }
    std::vector<TestTensor> results;
    for (size_t k = 0; k < whole.signature.outputs.size(); ++k) {
      results.emplace_back(whole.signature.outputs[k].type);
      memory.emplace_back(results.back());
      out.push_back({memory.back().data(), whole.output_boxes[k], whole.output_shapes[k]});
    }
    const AlignedFloats scratch(
        static_cast<size_t>(PlanShapes(whole.signature, options)->scratch_bytes));
    const auto plan =
        PlanKernel(whole.signature, {in, out, ExampleStep(), kExampleKey}, scratch.data(), options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    for (const KernelStep& step : plan->steps) std::visit([&](const auto& s) { Do(s); }, step);
    for (size_t k = 0; k < results.size(); ++k) memory[inputs.size() + k].CopyTo(results[k]);
    return results;
  }

  FakeCalls cudnn_calls, blas_calls;
  AlgorithmStore store;
  FakeTrials trials;
  const AlgorithmSearch search{&store, &trials, "fake"};
  std::unique_ptr<Cudnn> cudnn = FakeCudnn(&cudnn_calls, search);
  std::unique_ptr<CublasLt> blas = FakeCublasLt(&blas_calls, search);

 private:
  template <class Work>
  void Do(const Work& work) {
    KernelSteps plan;
    plan.steps.emplace_back(work);
    RunOnHost(plan);
  }
  void Do(const Gemm& gemm) {
    const auto runner = GemmRunner::Prepare(gemm.shape, blas.get());
    ASSERT_TRUE(runner.ok()) << runner.status();
    const absl::Status status = (*runner)->Enqueue(gemm, nullptr, nullptr);
    EXPECT_TRUE(status.ok()) << status;
  }
  void Do(const Convolution& given) {
    const auto runner = ConvolutionRunner::Prepare(given.shape, cudnn.get());
    ASSERT_TRUE(runner.ok()) << runner.status();
    Convolution convolution = given;
    convolution.epilogue.count = 0;  // a kernel
    const absl::Status status = (*runner)->Enqueue(convolution, nullptr, nullptr);
    EXPECT_TRUE(status.ok()) << status;
    Do(given.epilogue);
  }
};

// Every kernel of those examples that are products or convolutions.
void ExpectProducts(const std::vector<OperatorExample>& examples, const KernelOptions& options,
                    double tolerance, FakeDevice& device) {
  for (const OperatorExample& example : examples) {
    const bool conv = std::holds_alternative<Conv2d>(example.attrs);
    const bool batch = std::holds_alternative<BatchMatMul>(example.attrs);
    if (!conv && !batch && !std::holds_alternative<MatMul>(example.attrs)) continue;
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
      const auto [inputs, expected] = InputsAndResults(kernel, example, run);
      ExpectNear(expected, device.Run(kernel, inputs, options), tolerance);
    }
  }
}

TEST(VendorCallsTest, ProductsAndConvolutionsEqualTheReferenceKernel) {
  FakeDevice device;
  ExpectProducts(KernelExamples(), {}, kTolerance, device);
  EXPECT_GT(device.cudnn_calls.convolutions, 40);
  EXPECT_GT(device.blas_calls.products, 40);
}

TEST(VendorCallsTest, ProductsOfEveryPrecisionAndOrderAreHandedOver) {
  for (const KernelOptions& options :
       std::initializer_list<KernelOptions>{{Precision::kTf32, false},
                                            {Precision::kTf32, true},
                                            {Precision::kFloat16, true},
                                            {Precision::kFloat16, false},
                                            {Precision::kBfloat16, true},
                                            {Precision::kBfloat16, false}}) {
    FakeDevice device;
    ExpectProducts(OperatorExamples(), options, ToleranceOf(options.precision), device);
    EXPECT_GT(device.cudnn_calls.convolutions, 10);
    EXPECT_GT(device.blas_calls.products, 10);
  }
}

TEST(VendorCallsTest, AProductsMatricesMustBeAligned) {
  FakeDevice device;
  const GemmShape shape{false, false, 8, 4, 2, 8, 2, 8};
  const AlignedFloats data(size_t{4} * 64);
  auto* floats = static_cast<float*>(data.data());
  const auto runner = GemmRunner::Prepare(shape, device.blas.get());
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_TRUE((*runner)->Enqueue({shape, floats, floats, nullptr, floats}, nullptr, nullptr).ok());
  EXPECT_EQ(
      (*runner)->Enqueue({shape, floats + 1, floats, nullptr, floats}, nullptr, nullptr).code(),
      absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace partita

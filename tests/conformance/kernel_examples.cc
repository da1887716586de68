#include "tests/conformance/kernel_examples.h"

#include <algorithm>
#include <cmath>

#include "graph/support/check.h"
#include "gtest/gtest.h"
#include "runtime/backend/reference/kernels.h"
#include "tests/conformance/fused_kernels.h"

namespace partita {
namespace {

// Shapes at which libraries choose their fast code, which the small examples never reach.
std::vector<OperatorExample> LargeExamples() {
  const auto conv = [](std::string name, Conv2d attrs, const Shape& x, const Shape& w) {
    return OperatorExample{std::move(name), attrs, {Floats(x), Floats(w), Floats({w[0]})}};
  };
  const auto matmul = [](std::string name, int64_t rows, int64_t in, int64_t out, bool transposed) {
    const Shape w = transposed ? Shape{out, in} : Shape{in, out};
    return OperatorExample{std::move(name),
                           MatMul{.transposed = transposed},
                           {Floats({rows, in}), Floats(w), Floats({out})}};
  };
  const auto pool = [](std::string name, Pool2d attrs) {
    return OperatorExample{std::move(name), std::move(attrs), {Floats({2, 80, 13, 13})}};
  };
  return {
      conv("LargeConv3x3", {.pads = {1, 1, 1, 1}}, {2, 32, 13, 13}, {48, 32, 3, 3}),
      conv("LargeConv11x11Stride4", {.stride = {4, 4}, .pads = {2, 2, 2, 2}}, {2, 3, 63, 63},
           {64, 3, 11, 11}),
      conv("LargeConv1x1", {.stride = {2, 2}}, {2, 64, 14, 14}, {32, 64, 1, 1}),
      conv("LargeConvGroups", {.pads = {2, 2, 2, 2}, .groups = 2}, {2, 32, 14, 14}, {64, 16, 5, 5}),
      matmul("LargeMatMul", 33, 130, 101, true),
      matmul("LargeMatMulTiles", 32, 192, 64, true),
      matmul("LargeMatMulManyRows", 150, 100, 70, true),
      matmul("LargeMatMulInByOut", 17, 70, 100, false),
      pool("LargeMaxPool",
           {.function = "max", .kernel = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 0, 0}}),
      pool("LargeAveragePool", {.function = "average", .kernel = {2, 2}, .stride = {2, 2}}),
  };
}

// Inputs of a signature: those of the operator as its example says, weights and states at random.
std::vector<TestTensor> InputsFor(const WholeKernel& whole, const OperatorExample& example,
                                  const OperatorRun& run, OperandFill::Kind kind) {
  const KernelSignature& signature = whole.signature;
  std::mt19937_64 random(17);
  std::vector<TestTensor> inputs = WholeInputs(signature.pass, example, run, kind, random);
  for (size_t k = 0; k < inputs.size(); ++k) inputs[k] = PieceOf(inputs[k], whole.input_boxes[k]);
  while (inputs.size() < signature.inputs.size()) {
    // Second moments are not negative; labels are classes of the first operand.
    const TensorType& type = signature.inputs[inputs.size()].type;
    OperandFill fill{.kind = OperandFill::Kind::kPositive};
    if (type.dtype == DType::kInt32) {
      fill = {OperandFill::Kind::kLabels, signature.inputs[0].type.shape.back()};
    }
    inputs.push_back(Filled(type, fill, FillMode::kRandom, random));
  }
  return inputs;
}

// Also where both are infinite or not-a-number.
template <class T>
bool Same(T a, T b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool HasNan(const std::vector<TestTensor>& tensors) {
  for (const TestTensor& t : tensors) {
    if (t.type.dtype != DType::kFloat32) continue;
    for (float x : t.as<float>()) {
      if (std::isnan(x)) return true;
    }
  }
  return false;
}

}  // namespace

StepArguments ExampleStep() {
  StepArguments step;
  step.step = 2;
  step.seed = 5;
  step.weight_decay = 0.125;
  return step;
}

std::vector<OperatorExample> KernelExamples() {
  std::vector<OperatorExample> examples = OperatorExamples();
  for (OperatorExample& example : LargeExamples()) examples.push_back(std::move(example));
  return examples;
}

std::vector<TestTensor> WholeInputs(Pass pass, const OperatorExample& example,
                                    const OperatorRun& run, OperandFill::Kind kind,
                                    std::mt19937_64& random) {
  std::vector<TestTensor> operands, gradients;
  for (size_t k = 0; k < run.operands().size(); ++k) {
    const OperandFill fill = k < example.fills.size() ? example.fills[k] : OperandFill{kind};
    operands.push_back(Filled(run.operands()[k], fill, FillMode::kRandom, random));
  }
  const std::vector<TestTensor> results = run.RunWhole(Pass::Forward(), operands);
  for (const TensorType& type : run.results()) {
    gradients.push_back(Filled(type, {}, FillMode::kRandom, random));
  }
  return run.InputsOf(pass, operands, results, gradients);
}

std::vector<WholeKernel> KernelsOf(const OperatorRun& run) {
  std::vector<WholeKernel> all;
  for (Pass pass : PassesOf(run.rule())) {
    const WholeKernel plain = run.KernelOf(pass);
    all.push_back(plain);
    for (WholeKernel& fused : FusedKernels(plain)) all.push_back(std::move(fused));
  }
  return all;
}

std::vector<TestTensor> ReferenceResults(const WholeKernel& whole, std::vector<TestTensor> inputs) {
  std::vector<TestTensor> results;
  std::vector<TensorArgument> in, out;
  const auto data = [](TestTensor& t) { return t.bytes.empty() ? nullptr : t.bytes.data(); };
  for (size_t k = 0; k < inputs.size(); ++k) {
    in.push_back({data(inputs[k]), whole.input_boxes[k], whole.input_shapes[k]});
  }
  for (const KernelTensor& t : whole.signature.outputs) results.emplace_back(t.type);
  for (size_t k = 0; k < results.size(); ++k) {
    out.push_back({data(results[k]), whole.output_boxes[k], whole.output_shapes[k]});
  }
  const absl::Status status =
      RunReferenceKernel(whole.signature, {in, out, ExampleStep(), kExampleKey});
  CHECK(status.ok()) << ToString(whole.signature) << ": " << status;
  return results;
}

InputsWithResults InputsAndResults(const WholeKernel& kernel, const OperatorExample& example,
                                   const OperatorRun& run) {
  InputsWithResults result;
  result.inputs = InputsFor(kernel, example, run, OperandFill::Kind::kReal);
  result.expected = ReferenceResults(kernel, result.inputs);
  if (HasNan(result.expected)) {  // a root or a logarithm of what is never negative in a model
    result.inputs = InputsFor(kernel, example, run, OperandFill::Kind::kPositive);
    result.expected = ReferenceResults(kernel, result.inputs);
    EXPECT_FALSE(HasNan(result.expected)) << example.name;
  }
  return result;
}

void ExpectNear(const std::vector<TestTensor>& expected, const std::vector<TestTensor>& found,
                double tolerance) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t k = 0; k < expected.size(); ++k) {
    ASSERT_EQ(expected[k].bytes.size(), found[k].bytes.size());
    if (expected[k].type.dtype == DType::kInt32) {
      EXPECT_TRUE(expected[k] == found[k]);
      continue;
    }
    if (expected[k].type.dtype == DType::kFloat64) {
      for (size_t i = 0; i < expected[k].as<double>().size(); ++i) {
        const double want = expected[k].as<double>()[i];
        if (Same(want, found[k].as<double>()[i])) continue;
        ASSERT_NEAR(want, found[k].as<double>()[i], tolerance * std::max(1.0, std::abs(want)))
            << "output " << k << " element " << i;
      }
      continue;
    }
    double largest = 1;
    for (float x : expected[k].as<float>()) {
      if (std::isfinite(x)) largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
    for (size_t i = 0; i < expected[k].as<float>().size(); ++i) {
      if (Same(expected[k].as<float>()[i], found[k].as<float>()[i])) continue;
      ASSERT_NEAR(expected[k].as<float>()[i], found[k].as<float>()[i], tolerance * largest)
          << "output " << k << " element " << i;
    }
  }
}

}  // namespace partita

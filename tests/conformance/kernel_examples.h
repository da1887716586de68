#pragma once

#include <vector>

#include "tests/conformance/operator_runner.h"

namespace partita {

// Measure of every backend's kernels: the examples of the operator table with all their
// passes and fusions, inputs for them, and what the reference kernels make of those.

// The examples of the table, and shapes at which libraries choose their fast code.
std::vector<OperatorExample> KernelExamples();

// Kernels that an example can be asked for: each pass, and its fusions.
std::vector<WholeKernel> KernelsOf(const OperatorRun& run);

// Arguments of the examples' launches besides tensors.
StepArguments ExampleStep();
constexpr uint64_t kExampleKey = 0x1234;

// Runs the reference kernel.
std::vector<TestTensor> ReferenceResults(const WholeKernel& whole, std::vector<TestTensor> inputs);

// Inputs of a pass, whole: operands as the example says, or of that kind.
std::vector<TestTensor> WholeInputs(Pass pass, const OperatorExample& example,
                                    const OperatorRun& run, OperandFill::Kind kind,
                                    std::mt19937_64& random);

struct InputsWithResults {
  std::vector<TestTensor> inputs, expected;
};
// Inputs of a kernel: those of the operator as its example says, weights and states at random, so
// that no result is not-a-number.
InputsWithResults InputsAndResults(const WholeKernel& kernel, const OperatorExample& example,
                                   const OperatorRun& run);

// Sums of some thousand products of numbers up to 1 in another order: relative to the largest
// element of a tensor, and to 1.
constexpr double kTolerance = 2e-5;
void ExpectNear(const std::vector<TestTensor>& expected, const std::vector<TestTensor>& found,
                double tolerance = kTolerance);

}  // namespace partita

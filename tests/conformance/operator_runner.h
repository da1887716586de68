#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/ops/ops.h"
#include "graph/part_view.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"
#include "tests/conformance/operator_examples.h"

namespace partita {

// A whole tensor in memory, row-major.
struct TestTensor {
  TensorType type;
  std::vector<std::byte> bytes;

  explicit TestTensor(TensorType t)
      : type(std::move(t)), bytes(static_cast<size_t>(type.bytes())) {}
  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  friend bool operator==(const TestTensor&, const TestTensor&) = default;
};

// The part of `tensor` in `box`.
TestTensor PieceOf(const TestTensor& tensor, const Box& box);
// Adds `piece` (kRing64) to `total` at `box`, or takes the (signed) maximum.
void CombineInto(TestTensor& total, const Box& box, const TestTensor& piece, Reduction reduction);

enum class FillMode {
  kRandom,  // reals as OperandFill says; any 64 bits in the ring
  kTies,    // 0 or 1 (ring only): equal elements and zeros everywhere
};
TestTensor Filled(const TensorType& type, const OperandFill& fill, FillMode mode,
                  std::mt19937_64& random);

// The passes that a graph can ask for.
std::vector<Pass> PassesOf(const ShardingRule& rule);

// Every floating-point type becomes `dtype` (kFloat64 or kRing64); with kFloat32 all stay as they
// are.
std::vector<TensorType> WithArithmetic(std::vector<TensorType> types, DType dtype);

// A kernel, which piece of what whole tensor each input and output is.
struct WholeKernel {
  KernelSignature signature;
  std::vector<Box> input_boxes, output_boxes;
  std::vector<Shape> input_shapes, output_shapes;
};

// An example in one arithmetic, ready to run whole or in parts by the reference backend.
class OperatorRun {
 public:
  OperatorRun(const OperatorExample& example, DType dtype);

  const ShardingRule& rule() const { return rule_; }
  std::span<const TensorType> operands() const { return operands_; }
  std::span<const TensorType> results() const { return results_; }
  // The rule of a pass, and the types that it reads and writes.
  ShardingRule RuleOf(Pass pass) const;
  std::vector<TensorType> InputTypes(Pass pass) const;
  std::vector<TensorType> OutputTypes(Pass pass) const;
  // Picks what a pass reads.
  std::vector<TestTensor> InputsOf(Pass pass, const std::vector<TestTensor>& operands,
                                   const std::vector<TestTensor>& results,
                                   const std::vector<TestTensor>& gradients) const;

  // The unsplit pass as a kernel on dense data, and the pieces that it reads and writes.
  WholeKernel KernelOf(Pass pass) const;

  // Runs the pass unsplit. Elements that it does not write (the gradient of what a slice leaves
  // out) are zero.
  std::vector<TestTensor> RunWhole(Pass pass, const std::vector<TestTensor>& inputs) const;
  // Runs every part of a split of the loops by `degrees` and combines what they give (kRing64).
  // Fails if the split is not legal. `empty_operands` counts operands of parts that are empty.
  absl::StatusOr<std::vector<TestTensor>> RunSplit(Pass pass, const std::vector<TestTensor>& inputs,
                                                   std::span<const int64_t> degrees,
                                                   int64_t* empty_operands) const;
  // Calls visit(kernel, inputs) for every part of such a split, with the part's pieces. Fails if
  // the split is not legal.
  absl::Status VisitParts(
      Pass pass, const std::vector<TestTensor>& inputs, std::span<const int64_t> degrees,
      const std::function<void(const WholeKernel&, const std::vector<TestTensor>&)>& visit) const;
  // Like RunWhole, with output `pair.output` in the buffer of input `pair.input`.
  TestTensor RunInPlace(Pass pass, std::vector<TestTensor> inputs, InPlacePair pair) const;

 private:
  struct Part {
    PartView forward, pass;
  };
  absl::StatusOr<Part> ViewBlocks(Pass pass, std::vector<Interval> blocks) const;
  WholeKernel KernelOf(Pass pass, const Part& part) const;
  std::vector<TestTensor> RunPart(Pass pass, const Part& part, const std::vector<TestTensor>& whole,
                                  int64_t* empty_operands) const;

  OpAttrs attrs_;
  std::vector<TensorType> operands_, results_;
  ShardingRule rule_;
};

}  // namespace partita

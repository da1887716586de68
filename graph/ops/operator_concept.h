#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/part_view.h"
#include "graph/sharding_rule.h"
#include "graph/tensor.h"

namespace partita {

// Kernel of an operator: forward, or the gradient with respect to one operand.
struct Pass {
  int8_t gradient = -1;  // the operand, or -1: forward
  bool is_forward() const { return gradient < 0; }
  static Pass Forward() { return {}; }
  static Pass Gradient(int operand) { return {static_cast<int8_t>(operand)}; }
  friend auto operator<=>(const Pass&, const Pass&) = default;
  template <class H>
  friend H AbslHashValue(H h, const Pass& a) {
    return H::combine(std::move(h), a.gradient);
  }
};

// Arithmetic of one kernel launch. `multiply_adds` counts fused pairs (the "MACs" of tables);
// `other` counts everything else (comparisons, additions, transcendental functions at 1 each).
struct Work {
  int64_t multiply_adds = 0;
  int64_t other = 0;
};

// A result that may take an operand's buffer: output `output` of a kernel may overwrite its input
// `input` (positions among the kernel's inputs and outputs), element for element.
struct InPlacePair {
  int input = 0;
  int output = 0;
};

// Shares of a device's peak that the kernels of vendor libraries reach at training sizes.
struct PeakShare {
  double forward = 0.5;
  double gradient = 0.5;
};

// Statistic that an update keeps for evaluation.
enum class Statistic : uint8_t { kMean, kVariance };

// Form of an operator that does not depend on the batch: the row `attrs` of the table, and its
// operands in order.
struct FixedOperand {
  int operand = -1;                        // an operand of the operator itself, or, if below 0:
  Statistic statistic = Statistic::kMean;  // what updates keep of the operator's sums
};
template <class Row>
struct FixedForm {
  Row attrs;
  std::vector<FixedOperand> operands;
};

// A tensor in the backward pass of a layer: number `index` of
//   kOperand          the operands
//   kResultGradient   the gradients of the results
//   kOperandGradient  the gradients of the operands
//   kEarlier          the results of the piece before
struct GradientTensor {
  enum class Kind : uint8_t { kOperand, kResultGradient, kOperandGradient, kEarlier };
  Kind kind = Kind::kOperand;
  int index = 0;
};
// One of the operators that compute the gradient of a layer where it is not the derivative of each
// of the layer's operators; `attrs` is a row of the table.
template <class Attrs>
struct GradientPiece {
  const char* ending;  // of its name, after the layer's
  Attrs attrs;
  std::vector<GradientTensor> inputs;
  std::vector<int> gradients_of = {};  // its results: gradients of these operands, or none of them
};

// Another number of samples, where attributes depend on it.
struct BatchChange {
  int64_t from, to;
};

// Concept of a row of the operator table: attributes as a value type with these free functions,
// found by argument-dependent lookup. Types are of whole tensors in the graph and of the part's
// pieces in a kernel: a part of an operator is the same operator on smaller tensors, with the
// attributes that Localize gives.
template <class A>
concept OperatorAttrs =
    std::equality_comparable<A> &&
    requires(const A& attrs, std::span<const TensorType> types, const PartView& view, Pass pass) {
      // The operator's name in files, tables and messages: lower case, [a-z0-9_].
      { A::kName } -> std::convertible_to<absl::string_view>;
      // One sentence for `partita list operators`.
      { A::kDescription } -> std::convertible_to<absl::string_view>;
      // Result types from operand types; InvalidArgument with what was found and wanted.
      { InferResults(attrs, types) } -> std::same_as<absl::StatusOr<std::vector<TensorType>>>;
      // Rule by which it splits. The types are consistent (InferResults accepted them).
      { MakeRule(attrs, types, types) } -> std::same_as<ShardingRule>;
      // Tensors that the gradient with respect to `operand` reads besides the gradients of the
      // results. Only called for operands that the rule calls differentiable.
      { ReadsForGradient(attrs, 0) } -> std::same_as<GradientReads>;
      // The attributes of the part `view` (a view of the *forward* operator) as an operator of its
      // own: padding becomes the part's padding, group counts the part's, and so on.
      { Localize(attrs, view) } -> std::same_as<A>;
      // Arithmetic of a kernel with these inputs and outputs (those that the pass reads and
      // writes).
      { WorkOf(attrs, pass, types, types) } -> std::same_as<Work>;
      // Pairs of an output and an input over which a kernel may write it.
      { InPlace(attrs, pass) } -> std::same_as<std::vector<InPlacePair>>;
    };

// Facts that a row states where they are not what holds by default. ops.h has a function for each;
// outside graph/ops and kernels nothing else asks which operator it is.
//
// Static constexpr members:
//
//   bool kIsEpilogue          the kernel that makes its only operand may do it before storing
//   bool kTakesEpilogue       its forward kernel can do such an operator to its only result
//   int kFusesUpdateOf        the kernel of the gradient of this operand, a weight, can hand its
//                             result to the weight's update instead of storing it
//   bool kTakesGradient       an update that takes such a gradient, as input kGradientInput
//   std::array kTakesIn       names of operators whose results it reads and whose forward kernels
//                             its own does first, where nothing is exchanged between the two
//   std::array kNativeOperands  operands of rank 4 that may be in the backend's native format, as
//                             all results may, each by itself
//   bool kOneFormat           all its tensors of rank 4 may, in one and the same format
//   PeakShare kPeakShare      what libraries reach of the peak; by default one half
//   bool kCastsResult         with factors of 16 bits the GPU's library writes its result in 16 bits
//   bool kMakesZeros          negative elements become zeros
//   bool kKeepsZeros          a result of such an operator has about as many zeros after it
//   bool kKeepsNotFinite      results that are not finite are, in every backend, the NaN or the
//                             infinity that the reference kernel has there
//   bool kRoutesByValue       exact on integers, and where its gradient goes depends on its operands'
//                             values
//   bool kSuitsCores          it gains so little from an accelerator that experts place it on cores
//   bool kInCrossEntropy      cross-entropy applies it itself
//   bool kIdentityInEvaluation  in evaluation its result is its operand
//   Statistic kStatistic      an update that keeps it
//
// Functions:
//
//   double WorkPerElement(attrs, shapes of operands)   multiply-adds, comparisons or additions for
//                             one element of the first result, also where shapes are absurd; by
//                             default 1
//   std::optional<int64_t> IndexLimit(attrs, operand, shapes of operands)   the operand holds integers
//                             of [0, limit); by default it does not
//   bool IsExactOnIntegers(attrs)   results and gradients of small integers are integers; by
//                             default kExactOnIntegers, and false where there is none
//   absl::Status Rebatch(attrs&, shape of the first operand, BatchChange)   attributes for another
//                             number of samples; by default they do not depend on it
//   FixedForm<Row> FixedFormOf(attrs)   form that takes kept statistics in place of the batch's
//   std::vector<GradientPiece<Attrs>> GradientPieces<Attrs>(attrs)   gradient of the layer whose
//                             last operator it is; by default every operator has its derivative

// Defaults of the functions.
template <class A>
double WorkPerElement(const A&, std::span<const Shape>) {
  return 1;
}
template <class A>
std::optional<int64_t> IndexLimit(const A&, int, std::span<const Shape>) {
  return std::nullopt;
}
template <class A>
bool IsExactOnIntegers(const A&) {
  return requires { A::kExactOnIntegers; };
}
template <class A>
absl::Status Rebatch(A&, const Shape&, const BatchChange&) {
  return absl::OkStatus();
}
template <class A>
std::nullopt_t FixedFormOf(const A&) {
  return std::nullopt;
}

}  // namespace partita

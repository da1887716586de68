#pragma once

#include <concepts>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/ops/operator_concept.h"

// Operators whose operands and results are all shaped by dimensions of their first operand, which
// is called x here: normalisation, softmax, losses, updates. Such a row states its form and gets
// the functions of the operator table from it. A form is a list of operands and results,
// "x*,l,r!->s", where each is one letter and perhaps marks:
//
//   x  every dimension of x
//   r  all but the last (rows)
//   l  the same, of int32 (labels)
//   c  dimension 1 only (channels)
//   s  none (a scalar)
//
//   *  differentiable
//   !  read once by parts that differ along loops that it does not have
//   2  kept in double where x is not a ring tensor
//   ^  (result) combined by max
//
// The loops are the dimensions of x, named by DimensionName; those that a result does not have are
// summed.

namespace partita {

absl::StatusOr<std::vector<TensorType>> ResultsOfForm(absl::string_view name,
                                                      absl::string_view form,
                                                      std::span<const TensorType> operands);
ShardingRule RuleOfForm(absl::string_view form, std::span<const TensorType> operands);

// The volume of the largest tensor of a launch.
int64_t LargestVolume(std::span<const TensorType> inputs, std::span<const TensorType> outputs);

// A row with a form. kOperations: arithmetic operations per element of x, transcendental functions
// at 1 each. Check(), where a row has it, says what is wrong with the attributes. A function that
// is declared for the row itself goes before the one here: ReadsForGradient where a gradient reads
// more than the gradients of the results, InPlace where a kernel may overwrite an input.
template <class A>
concept Formed = requires {
  { A::kForm } -> std::convertible_to<absl::string_view>;
  { A::kOperations } -> std::convertible_to<int64_t>;
};

template <Formed A>
absl::StatusOr<std::vector<TensorType>> InferResults(const A& attrs,
                                                     std::span<const TensorType> operands) {
  if constexpr (requires { attrs.Check(); }) {
    if (absl::Status status = attrs.Check(); !status.ok()) return status;
  }
  return ResultsOfForm(A::kName, A::kForm, operands);
}

template <Formed A>
ShardingRule MakeRule(const A&, std::span<const TensorType> operands, std::span<const TensorType>) {
  return RuleOfForm(A::kForm, operands);
}

template <Formed A>
GradientReads ReadsForGradient(const A&, int) {
  return {};
}

template <Formed A>
A Localize(const A& attrs, const PartView&) {
  return attrs;
}

template <Formed A>
Work WorkOf(const A&, Pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  return {.other = A::kOperations * LargestVolume(inputs, outputs)};
}

template <Formed A>
std::vector<InPlacePair> InPlace(const A&, Pass) {
  return {};
}

}  // namespace partita

#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace partita

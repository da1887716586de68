#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/operator_concept.h"

namespace partita {

// indices[rows...] (int32), table[v, e] -> y[rows..., e]: the rows of a table that indices name. An
// index outside [0, v) gives zeros: so a part that has some rows of the table gives what these rows
// contribute, and the sum over parts is the whole. The gradient of the table is the sum of the
// gradients of the rows that were taken from it.
struct Embedding {
  static constexpr char kName[] = "embedding";
  static constexpr char kDescription[] = "rows of a table, chosen by integers";
  static constexpr bool kExactOnIntegers = true;
  static constexpr bool kKeepsNotFinite = true;
  template <class Self, class Visitor>
  static void VisitFields(Self&, Visitor&&) {}
  friend bool operator==(const Embedding&, const Embedding&) = default;
};

absl::StatusOr<std::vector<TensorType>> InferResults(const Embedding&,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const Embedding&, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const Embedding&, int operand);
Embedding Localize(const Embedding& embedding, const PartView& view);
Work WorkOf(const Embedding&, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const Embedding&, Pass pass);
std::optional<int64_t> IndexLimit(const Embedding&, int operand, std::span<const Shape> operands);

static_assert(OperatorAttrs<Embedding>);

}  // namespace partita

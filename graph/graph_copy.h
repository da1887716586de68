#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace partita {

// Copies a forward graph into a builder, operator by operator, so that some can be left out or
// replaced. Names stay what they are.
class GraphCopy {
 public:
  // Starts with the inputs and all weights of `source`, which outlives this object.
  explicit GraphCopy(const Graph& source) : GraphCopy(source, {}) {}
  // With values of weights, indexed as source.weights(); null: as in the source.
  GraphCopy(const Graph& source, std::span<const std::shared_ptr<const std::vector<float>>> values);

  GraphBuilder& builder() { return builder_; }
  // Copy or replacement of a tensor of the source, which must have been copied or replaced before.
  TensorId Map(TensorId id) const;
  // Replaces a tensor: operators that read `id` in the source read `replacement` in the copy.
  void Replace(TensorId id, TensorId replacement) { tensors_[id.index()] = replacement; }
  // Copies one operator (forward or an update) whose inputs have been copied or replaced.
  absl::Status CopyOp(const Operator& op);
  // Copied operators take the anchors of their originals, if those were copied too. Call at the
  // end.
  void CopyAnchors();
  // Gives the copies of the source's logits their role.
  void CopyLogits();

 private:
  const Graph& source_;
  GraphBuilder builder_;
  std::vector<TensorId> tensors_;  // indexed by the source's tensor
  std::vector<OpId> ops_;          // indexed by the source's operator; kNoOp: left out
};

// Specification that adds an update (Operator::anchor_weight) of a graph once more.
GraphBuilder::UpdateSpec UpdateSpecOf(const Graph& graph, const Operator& op);

// A forward graph with other values of its weights, indexed as model.weights(); null: as they are.
absl::StatusOr<Graph> WithWeightValues(
    const Graph& model, std::span<const std::shared_ptr<const std::vector<float>>> values);

// The model without the operators that neither `results` nor an update needs, and `results` as its
// logits.
absl::StatusOr<Graph> WithoutDeadOperators(const Graph& model, std::span<const TensorId> results);

}  // namespace partita

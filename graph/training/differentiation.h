#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace partita {

// Adds the operators that compute gradients to a graph under construction, in reverse mode. The
// gradient of tensor T is one tensor called "d:T". Every consumer of T on a path from a trainable
// weight to the loss adds to it; what a tensor's producers write adds up (see TensorKind), so no
// operator sums gradients.
class Differentiation {
 public:
  // `builder` outlives this object. Each microbatch reads the weights that the first one reads.
  explicit Differentiation(GraphBuilder& builder, int microbatches = 1);

  // Adds the gradient of `loss` with respect to everything on the way to trainable weights, `seed`
  // being the gradient of the loss itself. `forward`: the operators that lead to it, of one
  // microbatch, in topological order. InvalidArgument if no trainable weight leads to it.
  absl::Status AddGradients(std::span<const OpId> forward, TensorId loss, TensorId seed);

  // Builder for explicit backwards (see backward.h).
  GraphBuilder& builder() { return builder_; }
  // Whether a gradient of this tensor is wanted.
  bool Needs(TensorId id) const { return needs_[id.index()]; }
  // Gradient of a tensor, made on first use.
  absl::StatusOr<TensorId> GradientOf(TensorId id);
  // The gradient if there is one yet, otherwise kNoTensor.
  TensorId FindGradient(TensorId id) const;
  // Number of operators that read it, without updates.
  int CountReaders(TensorId id) const;

 private:
  void FindNeeds(std::span<const OpId> forward);
  std::vector<int> DifferentiableOperands(const Operator& op) const;
  absl::Status AddBackward(const Operator& op);
  absl::Status AddDerived(const Operator& op);

  GraphBuilder& builder_;
  const int microbatches_;
  // Indexed by tensor.
  std::vector<bool> needs_;
  std::vector<int> readers_;         // of a weight: those of one microbatch
  std::vector<TensorId> gradients_;  // kNoTensor: none
};

}  // namespace partita

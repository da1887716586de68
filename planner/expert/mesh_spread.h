#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "planner/expert/mesh.h"
#include "planner/space/search_space.h"

namespace partita {

// Product with a matrix of weights, which sums over loop `in` and whose result's columns are loop
// `out`. A lookup takes rows of the matrix, its table, by numbers: no activation has loop `in`.
struct WeightProduct {
  int in = -1, out = -1;
  TensorId weight;
  bool is_lookup = false;
};
std::optional<WeightProduct> WeightProductOf(const Graph& graph, const Operator& op);

// FailedPrecondition unless at least half of the forward multiply-adds are in products of weights.
absl::Status WorkIsInProducts(const Graph& graph);

// A strategy in the making that gives every operator all places of a mesh. It knows how each tensor
// lies there, so that an operator can follow its operands.
class MeshSpread {
 public:
  MeshSpread(const Graph& graph, int devices, DeviceMesh mesh);

  const DeviceMesh& mesh() const { return mesh_; }
  // How the axes split a tensor's dimensions; kCopies for all of one that no operator has made yet.
  const AxisSplits& dims(TensorId id) const { return dims_[id.index()]; }

  // For each axis the loop by which the operator finds the blocks of the first operand that the
  // axis splits; kCopies where it splits none, or the loop has no room.
  AxisSplits Following(const Operator& op) const;
  // Whether an operator of these loops meets the axis's blocks as they are: false where the axis
  // splits an operand and not the operator, or several operands in blocks of different sizes.
  bool FollowsEvenly(const Operator& op, const AxisSplits& loops, size_t axis) const;

  // The axis along the first of the result's dimensions but `but` that has room for it, whose blocks
  // are of one size if there is such a one.
  void AlongRows(const Operator& op, size_t axis, int but, AxisSplits& loops) const;

  // The operator's configuration: copies along all axes where these loops do not fit its helpers.
  void Set(const Operator& op, const AxisSplits& loops);
  // The axis splits this dimension of the operator's results for whoever follows, whatever it
  // splits in the operator.
  void Leave(const Operator& op, size_t axis, int dim);

  // Places the trained weight of a product, if no other operator reads it, in boxes that the axes of
  // `mesh`, of the same devices, cut; both layouts, gathered for each use (as in ZeRO-3).
  void Shard(const WeightProduct& product, const DeviceMesh& mesh, const AxisSplits& dims);

  Strategy Finish() && { return std::move(strategy_); }

 private:
  const Graph& graph_;
  const SearchSpace space_;
  const DeviceMesh mesh_;
  std::vector<AxisSplits> dims_;  // indexed by TensorId
  Strategy strategy_;
};

}  // namespace partita

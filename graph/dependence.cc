#include "graph/dependence.h"

#include <algorithm>
#include <vector>

namespace partita {

bool LogitsDependOnSamples(const Graph& model) {
  std::vector<bool> depends(model.tensors().size());
  const auto does_depend = [&](TensorId id) { return depends[id.index()]; };
  for (const TensorId id : model.tensors(TensorRole::kSamples)) depends[id.index()] = true;
  for (const Operator& op : model.ops()) {
    if (!std::ranges::any_of(op.inputs, does_depend)) continue;
    for (const TensorId id : op.outputs) depends[id.index()] = true;
  }
  return std::ranges::all_of(model.tensors(TensorRole::kLogits), does_depend);
}

}  // namespace partita

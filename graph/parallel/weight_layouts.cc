#include "graph/parallel/weight_layouts.h"

#include <algorithm>
#include <utility>

namespace partita {
namespace {

// Drops boxes that another box on the same device contains; sorts by device, then box.
std::vector<PlacedBox> Maximal(std::vector<PlacedBox> pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const PlacedBox& a, const PlacedBox& b) {
    return a.device != b.device ? a.device < b.device : a.box < b.box;
  });
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  std::vector<PlacedBox> kept;
  for (auto first = pieces.begin(); first != pieces.end();) {
    const auto end = std::find_if(
        first, pieces.end(), [&](const PlacedBox& piece) { return piece.device != first->device; });
    for (auto a = first; a != end; ++a) {
      const bool contained = std::any_of(first, end, [&](const PlacedBox& b) {
        return a->box != b.box && b.box.Contains(a->box);
      });
      if (!contained) kept.push_back(*a);
    }
    first = end;
  }
  return kept;
}

// What the parts of operators other than updates read of a tensor.
std::vector<PlacedBox> DemandsOf(const Graph& graph, TensorId tensor,
                                 std::span<const std::span<const Part>> parts) {
  std::vector<PlacedBox> demands;
  for (OpId id : graph.consumers(tensor)) {
    const Operator& op = graph.op(id);
    if (op.anchor == kNoOp) continue;
    for (const Part& part : parts[id.index()]) {
      for (size_t k = 0; k < op.inputs.size(); ++k) {
        const TensorView& view = part.view.operands[k];
        if (op.inputs[k] == tensor && view.present && !view.box.empty()) {
          demands.push_back({view.box, part.device});
        }
      }
    }
  }
  return demands;
}

std::vector<PlacedBox> ProducedBy(const Graph& graph, TensorId tensor,
                                  std::span<const std::span<const Part>> parts) {
  std::vector<PlacedBox> pieces;
  for (OpId id : graph.producers(tensor)) {
    const Operator& op = graph.op(id);
    for (const Part& part : parts[id.index()]) {
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        const TensorView& view = part.view.results[k];
        if (op.outputs[k] == tensor && view.present && !view.box.empty()) {
          pieces.push_back({view.box, part.device});
        }
      }
    }
  }
  return pieces;
}

// The activations of the weight's shape that its update reads: gradients, statistics.
std::vector<TensorId> UpdateInputs(const Graph& graph, TensorId weight) {
  std::vector<TensorId> inputs;
  for (OpId id : graph.consumers(weight)) {
    const Operator& op = graph.op(id);
    if (op.anchor != kNoOp) continue;
    for (TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.kind == TensorKind::kActivation &&
          tensor.type.shape == graph.tensor(weight).type.shape) {
        inputs.push_back(input);
      }
    }
  }
  return inputs;
}

// Where the first of them is wanted by others, or else made.
std::vector<PlacedBox> WhereUpdateInputsAre(const Graph& graph, TensorId weight,
                                            std::span<const std::span<const Part>> parts) {
  const std::vector<TensorId> inputs = UpdateInputs(graph, weight);
  if (inputs.empty()) return {};
  std::vector<PlacedBox> demands = DemandsOf(graph, inputs[0], parts);
  return demands.empty() ? ProducedBy(graph, inputs[0], parts) : demands;
}

}  // namespace

WeightLayouts ResolveWeightLayout(const Graph& graph, const Strategy& strategy, size_t weight,
                                  std::span<const std::span<const Part>> parts) {
  const TensorId tensor = graph.weights()[weight].tensor;
  const WeightPlacement chosen =
      weight < strategy.weights.size() ? strategy.weights[weight] : WeightPlacement{};
  WeightLayouts layout;
  if (chosen.parameter.has_value()) {
    layout.parameter = *chosen.parameter;
  } else {
    layout.parameter = DemandsOf(graph, tensor, parts);
    if (layout.parameter.empty()) layout.parameter = WhereUpdateInputsAre(graph, tensor, parts);
    layout.parameter = Maximal(std::move(layout.parameter));
    std::vector<Box> covered;
    for (const PlacedBox& piece : layout.parameter) covered.push_back(piece.box);
    for (Box& rest : Uncovered(Box::Full(graph.tensor(tensor).type.shape), covered)) {
      layout.parameter.push_back({std::move(rest), strategy.host_device});
    }
  }
  layout.update = chosen.update.has_value() ? *chosen.update : layout.parameter;
  layout.prefetch = chosen.prefetch;
  return layout;
}

std::vector<PlacedBox> EvenShards(const Shape& shape, std::span<const DeviceId> devices) {
  const Box whole = Box::Full(shape);
  if (shape.empty()) return {{whole, devices[0]}};
  const auto longest = std::max_element(shape.begin(), shape.end());
  const auto axis = static_cast<int>(longest - shape.begin());
  const auto pieces =
      std::min(static_cast<int64_t>(devices.size()), std::max<int64_t>(1, *longest));
  std::vector<PlacedBox> shards;
  for (int64_t p = 0; p < pieces; ++p) {
    Box box = whole;
    box[axis] = BlockOf(*longest, pieces, p);
    shards.push_back({std::move(box), devices[static_cast<size_t>(p)]});
  }
  return shards;
}

OpId GatherOpener(const Graph& graph, OpId reader, int32_t prefetch) {
  const auto readers = graph.weight_readers();
  const auto place = std::lower_bound(readers.begin(), readers.end(), reader) - readers.begin();
  return place <= prefetch ? kNoOp : readers[static_cast<size_t>(place - prefetch - 1)];
}

std::vector<OpId> DecidingOperators(const Graph& graph, size_t weight) {
  const TensorId tensor = graph.weights()[weight].tensor;
  std::vector<OpId> ops(graph.consumers(tensor).begin(), graph.consumers(tensor).end());
  for (TensorId input : UpdateInputs(graph, tensor)) {
    ops.insert(ops.end(), graph.consumers(input).begin(), graph.consumers(input).end());
    ops.insert(ops.end(), graph.producers(input).begin(), graph.producers(input).end());
  }
  std::sort(ops.begin(), ops.end());
  ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
  std::erase_if(ops, [&](OpId id) { return graph.op(id).anchor == kNoOp; });
  return ops;
}

}  // namespace partita

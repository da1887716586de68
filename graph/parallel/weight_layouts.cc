#include "graph/parallel/weight_layouts.h"

#include <algorithm>

namespace partita {
namespace {

// Drops boxes that another box on the same device contains; sorts by device, then box.
std::vector<PlacedBox> Maximal(std::vector<PlacedBox> pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const PlacedBox& a, const PlacedBox& b) {
    return a.device != b.device ? a.device < b.device : a.box < b.box;
  });
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  std::vector<PlacedBox> kept;
  for (const PlacedBox& a : pieces) {
    bool contained = false;
    for (const PlacedBox& b : pieces) {
      contained |= a.device == b.device && a.box != b.box && b.box.Contains(a.box);
    }
    if (!contained) kept.push_back(a);
  }
  return kept;
}

// What the parts of operators other than updates read of a tensor.
std::vector<PlacedBox> DemandsOf(const Graph& graph, TensorId tensor,
                                 const std::vector<std::vector<Part>>& parts) {
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
                                  const std::vector<std::vector<Part>>& parts) {
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

// Where the inputs of the weight's update are wanted by others, or else made.
std::vector<PlacedBox> WhereUpdateInputsAre(const Graph& graph, TensorId weight,
                                            const std::vector<std::vector<Part>>& parts) {
  for (OpId id : graph.consumers(weight)) {
    const Operator& op = graph.op(id);
    if (op.anchor != kNoOp) continue;
    for (TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.kind != TensorKind::kActivation ||
          tensor.type.shape != graph.tensor(weight).type.shape) {
        continue;
      }
      std::vector<PlacedBox> demands = DemandsOf(graph, input, parts);
      return demands.empty() ? ProducedBy(graph, input, parts) : demands;
    }
  }
  return {};
}

}  // namespace

std::vector<WeightLayouts> ResolveWeightLayouts(const Graph& graph, const Strategy& strategy,
                                                const std::vector<std::vector<Part>>& parts) {
  std::vector<WeightLayouts> layouts;
  for (size_t w = 0; w < graph.weights().size(); ++w) {
    const TensorId weight = graph.weights()[w].tensor;
    const WeightPlacement chosen =
        w < strategy.weights.size() ? strategy.weights[w] : WeightPlacement{};
    WeightLayouts layout;
    if (chosen.parameter.has_value()) {
      layout.parameter = *chosen.parameter;
    } else {
      layout.parameter = DemandsOf(graph, weight, parts);
      if (layout.parameter.empty()) layout.parameter = WhereUpdateInputsAre(graph, weight, parts);
      layout.parameter = Maximal(std::move(layout.parameter));
      std::vector<Box> covered;
      for (const PlacedBox& piece : layout.parameter) covered.push_back(piece.box);
      for (Box& rest : Uncovered(Box::Full(graph.tensor(weight).type.shape), covered)) {
        layout.parameter.push_back({std::move(rest), strategy.host_device});
      }
    }
    layout.update = chosen.update.has_value() ? *chosen.update : layout.parameter;
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

}  // namespace partita

#include "planner/space/distinct_placements.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <variant>

#include "graph/parallel/parts.h"
#include "graph/parallel/weight_layouts.h"

namespace partita {
namespace {

void Sort(std::vector<PlacedBox>& pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const PlacedBox& a, const PlacedBox& b) {
    const auto key = [](const PlacedBox& one) { return std::tie(one.device, one.box); };
    return key(a) < key(b);
  });
}

// Whether all that operators read of the tensor are pieces: then nothing is gathered or cut out.
bool ReadsPieces(const Graph& graph, TensorId tensor, std::span<const std::span<const Part>> parts,
                 const std::vector<PlacedBox>& pieces) {
  for (OpId id : graph.consumers(tensor)) {
    const std::vector<TensorId>& inputs = graph.op(id).inputs;
    for (const Part& part : parts[id.index()]) {
      for (size_t k = 0; k < inputs.size(); ++k) {
        const TensorView& view = part.view.operands[k];
        if (inputs[k] != tensor || !view.present || view.box.empty()) continue;
        const PlacedBox read{view.box, part.device};
        if (std::find(pieces.begin(), pieces.end(), read) == pieces.end()) return false;
      }
    }
  }
  return true;
}

std::vector<size_t> AllPlaces(size_t count) {
  std::vector<size_t> places(count);
  std::iota(places.begin(), places.end(), size_t{0});
  return places;
}

}  // namespace

std::vector<size_t> DistinctPlacements(const Graph& graph, const Strategy& strategy, size_t weight,
                                       std::span<const Decision> candidates) {
  std::vector<std::vector<Part>> made;
  std::vector<std::span<const Part>> parts(graph.ops().size());
  const std::vector<OpId> deciding = DecidingOperators(graph, weight);
  made.reserve(deciding.size());
  for (OpId id : deciding) {
    const Operator& op = graph.op(id);
    auto of_op = PartsOf(graph, op, strategy.configs[op.anchor.index()]);
    if (!of_op.ok()) return AllPlaces(candidates.size());
    parts[id.index()] = made.emplace_back(*std::move(of_op));
  }
  Strategy decided = strategy;
  const auto layouts_of = [&](const WeightPlacement& placement) {
    Decide(graph, decided, WeightDecision{static_cast<int32_t>(weight), placement});
    WeightLayouts layouts = ResolveWeightLayout(graph, decided, weight, parts);
    Sort(layouts.parameter);
    Sort(layouts.update);
    return layouts;
  };
  const WeightLayouts where_read = layouts_of({});
  const bool reads_pieces =
      ReadsPieces(graph, graph.weights()[weight].tensor, parts, where_read.parameter);
  std::vector<WeightLayouts> met;
  std::vector<size_t> distinct;
  for (size_t c = 0; c < candidates.size(); ++c) {
    WeightLayouts layouts = layouts_of(std::get<WeightDecision>(candidates[c]).placement);
    if (reads_pieces && layouts.parameter == where_read.parameter) layouts.prefetch = {};
    const bool is_known = std::any_of(met.begin(), met.end(), [&](const WeightLayouts& other) {
      return other.parameter == layouts.parameter && other.update == layouts.update &&
             other.prefetch == layouts.prefetch;
    });
    if (is_known) continue;
    met.push_back(std::move(layouts));
    distinct.push_back(c);
  }
  return distinct;
}

}  // namespace partita

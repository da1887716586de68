#include "planner/critical_shares.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/partition/fragment.h"
#include "planner/simulator/critical_chain.h"
#include "planner/simulator/flat_tasks.h"

namespace partita {
namespace {

using Kind = CriticalShare::Kind;
using Place = std::pair<Kind, std::vector<OpId>>;

// The anchor of the first of these operators that has one, of the layers themselves before gradients.
OpId FirstAnchor(const Graph& graph, std::span<const OpId> ops) {
  OpId anchor = kNoOp;
  for (OpId op : ops) {
    const OpId own = graph.op(op).anchor;
    if (own == op) return own;
    if (anchor == kNoOp) anchor = own;
  }
  return anchor;
}

// Of statistics, which no layer reads in training, the layer that makes what their update reads.
Place OfWeight(const Graph& graph, TensorId weight) {
  OpId anchor = FirstAnchor(graph, graph.consumers(weight));
  for (OpId update : graph.consumers(weight)) {
    for (TensorId input : graph.op(update).inputs) {
      if (anchor == kNoOp) anchor = FirstAnchor(graph, graph.producers(input));
    }
  }
  return {Kind::kWeights, {anchor}};
}

// What updates read, make and keep is the weight's.
std::optional<TensorId> WeightOf(const Graph& graph, const Tensor& tensor) {
  if (tensor.kind == TensorKind::kWeight) return tensor.id;
  for (const auto& ops : {graph.consumers(tensor.id), graph.producers(tensor.id)}) {
    for (OpId op : ops) {
      if (graph.op(op).anchor == kNoOp) return graph.op(op).anchor_weight;
    }
  }
  return std::nullopt;
}

Place PlaceOf(const Graph& graph, const TaskKey& key) {
  if (!key.of_tensor) {
    const Operator& op = graph.op(OpId(key.subject));
    if (op.anchor == kNoOp) return OfWeight(graph, op.anchor_weight);
    return {Kind::kKernels, {op.anchor}};
  }
  const Tensor& tensor = graph.tensor(TensorId(key.subject));
  if (const auto weight = WeightOf(graph, tensor); weight.has_value()) {
    return OfWeight(graph, *weight);
  }
  if (IsLoaded(tensor)) return {Kind::kInputs, {FirstAnchor(graph, graph.consumers(tensor.id))}};
  std::vector<OpId> anchors;
  for (const auto& ops : {graph.producers(tensor.id), graph.consumers(tensor.id)}) {
    const OpId anchor = FirstAnchor(graph, ops);
    if (anchor != kNoOp && (anchors.empty() || anchors[0] != anchor)) anchors.push_back(anchor);
  }
  std::sort(anchors.begin(), anchors.end());
  return {Kind::kExchange, std::move(anchors)};
}

}  // namespace

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kKernels:
      return "kernels";
    case Kind::kExchange:
      return "exchange";
    case Kind::kWeights:
      return "weights";
    case Kind::kInputs:
      return "inputs";
  }
  return "";
}

std::string OperatorsOf(const Graph& graph, const CriticalShare& share) {
  std::string names;
  for (OpId anchor : share.anchors) {
    absl::StrAppend(&names, names.empty() ? "" : ", ",
                    anchor == kNoOp ? "none" : graph.op(anchor).name);
  }
  return names;
}

std::vector<CriticalShare> CriticalSharesOf(const Graph& graph, const SimulatedResources& resources,
                                            const EvaluatedStep& step) {
  std::map<Place, Nanos> times;
  for (TaskId id : CriticalChain(Flatten(step.tasks, resources), step.schedule,
                                 step.memory.added_dependencies)) {
    times[PlaceOf(graph, step.tasks.task(id).key)] += step.durations[id.index()];
  }
  std::vector<CriticalShare> shares;
  for (const auto& [place, time] : times) shares.push_back({place.first, place.second, time});
  std::stable_sort(shares.begin(), shares.end(),
                   [](const CriticalShare& a, const CriticalShare& b) { return a.time > b.time; });
  return shares;
}

}  // namespace partita

#include "planner/expert/mesh_spread.h"

#include <algorithm>

#include "graph/support/error_category.h"
#include "planner/expert/splits.h"

namespace partita {
namespace {

bool IsWeight(const Graph& graph, TensorId id) {
  return graph.tensor(id).kind == TensorKind::kWeight;
}

// The only loop of a dimension; -1 if there are several or none.
int OnlyLoop(const DimMap& map) { return map.loops.size() == 1 ? map.loops[0] : -1; }

bool ActivationHas(const Graph& graph, const Operator& op, int loop) {
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    if (IsWeight(graph, op.inputs[k])) continue;
    if (LoopsOf(graph.rule(op.id).operands[k].dims).Contains(loop)) return true;
  }
  return false;
}

}  // namespace

std::optional<WeightProduct> WeightProductOf(const Graph& graph, const Operator& op) {
  const ShardingRule& rule = graph.rule(op.id);
  const LoopSet result = LoopsOf(rule.results[0].dims);
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const std::vector<DimMap>& dims = rule.operands[k].dims;
    if (!IsWeight(graph, op.inputs[k]) || dims.size() != 2) continue;
    int in = OnlyLoop(dims[0]), out = OnlyLoop(dims[1]);
    if (in < 0 || out < 0) continue;
    if (result.Contains(in)) std::swap(in, out);
    if (result.Contains(in) || !result.Contains(out)) continue;
    return WeightProduct{in, out, op.inputs[k], !ActivationHas(graph, op, in)};
  }
  return std::nullopt;
}

absl::Status WorkIsInProducts(const Graph& graph) {
  int64_t all = 0, in_products = 0;
  for (OpId id : graph.anchors()) {
    const Operator& op = graph.op(id);
    std::vector<TensorType> inputs, outputs;
    for (TensorId input : op.inputs) inputs.push_back(graph.tensor(input).type);
    for (TensorId output : op.outputs) outputs.push_back(graph.tensor(output).type);
    const int64_t work = WorkOf(op.attrs, Pass::Forward(), inputs, outputs).multiply_adds;
    all += work;
    if (WeightProductOf(graph, op).has_value()) in_products += work;
  }
  if (2 * in_products >= all && in_products > 0) return absl::OkStatus();
  return DeclinedError("most of the work is not in products of weights");
}

MeshSpread::MeshSpread(const Graph& graph, int devices, DeviceMesh mesh)
    : graph_(graph),
      space_(graph, devices),
      mesh_(std::move(mesh)),
      dims_(graph.tensors().size(), AxisSplits(mesh_.extents.size(), kCopies)),
      strategy_(SingleDevice(graph, mesh_.devices[0])) {
  strategy_.weights.resize(graph.weights().size());
}

AxisSplits MeshSpread::Following(const Operator& op) const {
  const ShardingRule& rule = graph_.rule(op.id);
  AxisSplits loops(mesh_.extents.size(), kCopies);
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const AxisSplits offered = LoopsOfOperand(rule, k, dims(op.inputs[k]));
    for (size_t axis = 0; axis < loops.size(); ++axis) {
      if (loops[axis] != kCopies) continue;
      loops[axis] = offered[axis];
      if (!HasRoom(rule, mesh_, loops)) loops[axis] = kCopies;
    }
  }
  return loops;
}

bool MeshSpread::FollowsEvenly(const Operator& op, const AxisSplits& loops, size_t axis) const {
  const auto split = std::count_if(op.inputs.begin(), op.inputs.end(),
                                   [&](TensorId id) { return dims(id)[axis] != kCopies; });
  if (loops[axis] == kCopies) return split == 0;
  const int64_t extent = graph_.rule(op.id).loops[static_cast<size_t>(loops[axis])].extent;
  return split < 2 || extent % WaysOf(mesh_, loops, loops[axis]) == 0;
}

void MeshSpread::AlongRows(const Operator& op, size_t axis, int but, AxisSplits& loops) const {
  const ShardingRule& rule = graph_.rule(op.id);
  for (const bool evenly : {true, false}) {
    for (const DimMap& map : rule.results[0].dims) {
      const int loop = OnlyLoop(map);
      if (loop < 0 || loop == but) continue;
      loops[axis] = loop;
      if (evenly ? IsEven(rule, mesh_, loops) : HasRoom(rule, mesh_, loops)) return;
    }
  }
  loops[axis] = kCopies;
}

void MeshSpread::Set(const Operator& op, const AxisSplits& loops) {
  const ShardingRule& rule = graph_.rule(op.id);
  AxisSplits taken = loops;
  ParallelConfig config = OverMesh(rule, mesh_, taken);
  if (!space_.Fits(op.id, config)) {
    taken.assign(mesh_.extents.size(), kCopies);
    config = OverMesh(rule, mesh_, taken);
  }
  strategy_.configs[op.id.index()] = std::move(config);
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    dims_[op.outputs[k].index()] = DimsOfResult(rule, k, taken);
  }
}

void MeshSpread::Leave(const Operator& op, size_t axis, int dim) {
  for (TensorId id : op.outputs) dims_[id.index()][axis] = dim;
}

void MeshSpread::Shard(const WeightProduct& product, const DeviceMesh& mesh,
                       const AxisSplits& dims) {
  int readers = 0;
  for (OpId id : graph_.consumers(product.weight)) {
    readers += graph_.op(id).anchor == id && graph_.op(id).pass.is_forward();
  }
  const auto weight =
      std::find_if(graph_.weights().begin(), graph_.weights().end(),
                   [&](const Weight& candidate) { return candidate.tensor == product.weight; });
  const Shape& shape = graph_.tensor(product.weight).type.shape;
  for (int d = 0; d < 2; ++d) {
    if (shape[static_cast<size_t>(d)] < WaysOf(mesh, dims, d)) return;
  }
  if (readers != 1 || !weight->trainable) return;
  const std::vector<PlacedBox> boxes = BoxesOverMesh(shape, mesh, dims);
  strategy_.weights[static_cast<size_t>(weight - graph_.weights().begin())] = {
      .parameter = boxes, .update = boxes, .prefetch = kPrefetch};
}

}  // namespace partita

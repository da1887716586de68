#include "graph/model/model_summary.h"

#include <limits>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace partita {
namespace {

// Both are >= 0.
int64_t Sum(int64_t a, int64_t b) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return a > kMax - b ? kMax : a + b;
}

std::vector<TensorType> TypesOf(const Graph& graph, const std::vector<TensorId>& ids) {
  std::vector<TensorType> types;
  for (TensorId id : ids) types.push_back(graph.tensor(id).type);
  return types;
}

// Updates (of running statistics) are no part of the forward pass.
bool IsForward(const Graph& graph, const Operator& op) {
  return op.pass.is_forward() && op.anchor_weight == kNoTensor &&
         graph.tensor(op.outputs[0]).kind == TensorKind::kActivation;
}

OperatorSummary SummarizeOperator(const Graph& graph, const Operator& op,
                                  const std::vector<bool>& trainable,
                                  absl::flat_hash_set<TensorId>& counted) {
  OperatorSummary row;
  row.name = op.name;
  row.kind = std::string(NameOf(op.attrs));
  row.result = graph.tensor(op.outputs[0]).type.shape;
  const Work work =
      WorkOf(op.attrs, op.pass, TypesOf(graph, op.inputs), TypesOf(graph, op.outputs));
  row.multiply_adds = work.multiply_adds;
  row.other_operations = work.other;
  for (TensorId id : op.inputs) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.kind != TensorKind::kWeight) continue;
    row.weight_bytes = Sum(row.weight_bytes, tensor.type.bytes());
    if (trainable[id.index()] && counted.insert(id).second) {
      row.parameters = Sum(row.parameters, Volume(tensor.type.shape));
    }
  }
  for (TensorId id : op.outputs) {
    row.result_bytes = Sum(row.result_bytes, graph.tensor(id).type.bytes());
  }
  return row;
}

}  // namespace

ModelSummary Summarize(const Graph& graph) {
  ModelSummary summary;
  summary.name = graph.name();
  summary.batch = graph.batch();
  summary.input = graph.WholeType(TensorRole::kSamples).shape;
  if (!graph.tensors(TensorRole::kLogits).empty()) {
    summary.output = graph.WholeType(TensorRole::kLogits).shape;
  }
  std::vector<bool> trainable(graph.tensors().size());
  for (const Weight& weight : graph.weights()) {
    const TensorType& type = graph.tensor(weight.tensor).type;
    trainable[weight.tensor.index()] = weight.trainable;
    int64_t& elements = weight.trainable ? summary.parameters : summary.frozen;
    elements = Sum(elements, Volume(type.shape));
    summary.weight_bytes = Sum(summary.weight_bytes, type.bytes());
  }
  absl::flat_hash_set<TensorId> counted;
  int64_t multiply_adds = 0;
  for (const Operator& op : graph.ops()) {
    if (!IsForward(graph, op)) continue;
    summary.operators.push_back(SummarizeOperator(graph, op, trainable, counted));
    multiply_adds = Sum(multiply_adds, summary.operators.back().multiply_adds);
    summary.activation_bytes = Sum(summary.activation_bytes, summary.operators.back().result_bytes);
  }
  const int64_t batch = summary.batch > 0 ? summary.batch : 1;
  summary.macs_per_sample = multiply_adds / batch + (multiply_adds % batch * 2 >= batch ? 1 : 0);
  return summary;
}

std::string CountText(int64_t value) {
  if (value >= 1'000'000'000) return absl::StrFormat("%.2f G", static_cast<double>(value) / 1e9);
  if (value >= 1'000'000) return absl::StrFormat("%.2f M", static_cast<double>(value) / 1e6);
  if (value >= 1'000) return absl::StrFormat("%.1f k", static_cast<double>(value) / 1e3);
  return absl::StrCat(value);
}

std::string SummaryText(const ModelSummary& summary) {
  return absl::StrCat(summary.name, ": ", summary.operators.size(), " operators, ",
                      CountText(summary.parameters), " parameters (", summary.parameters, "), ",
                      CountText(summary.macs_per_sample), " multiply-adds per sample, weights ",
                      CountText(summary.weight_bytes), "B, activations ",
                      CountText(summary.activation_bytes), "B at batch ", summary.batch, ", input ",
                      ToString(summary.input), ", output ", ToString(summary.output), "\n");
}

}  // namespace partita

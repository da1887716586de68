#include "graph/graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

std::vector<Shape> ShapesOf(std::span<const Tensor> tensors, std::span<const TensorId> ids) {
  std::vector<Shape> shapes;
  for (TensorId id : ids) shapes.push_back(tensors[id.index()].type.shape);
  return shapes;
}

std::vector<TensorType> TypesOf(std::span<const Tensor> tensors, std::span<const TensorId> ids) {
  std::vector<TensorType> types;
  for (TensorId id : ids) types.push_back(tensors[id.index()].type);
  return types;
}

uint64_t FingerprintOf(std::span<const Operator> ops, std::span<const Tensor> tensors) {
  Fingerprint f;
  for (const Tensor& tensor : tensors) {
    f.Add(tensor.name).Add(ToString(tensor.type)).Add(static_cast<uint64_t>(tensor.kind));
  }
  for (const Operator& op : ops) {
    f.Add(op.name).Add(ToString(op.attrs)).Add(static_cast<uint64_t>(op.pass.gradient + 1));
    for (TensorId id : op.inputs) f.Add(static_cast<uint64_t>(id.value()));
    for (TensorId id : op.outputs) f.Add(static_cast<uint64_t>(id.value()));
    f.Add(static_cast<uint64_t>(op.anchor.value() + 1));
    if (op.after.empty()) continue;
    f.Add("after");
    for (OpId id : op.after) f.Add(static_cast<uint64_t>(id.value()));
  }
  return f.value();
}

// The operators on a way from one to another along tensors and control edges, both included; empty
// without one.
std::vector<OpId> PathBetween(const Graph& graph, OpId from, OpId to) {
  std::vector<std::vector<OpId>> next(graph.ops().size());
  for (const Operator& op : graph.ops()) {
    for (OpId before : op.after) next[before.index()].push_back(op.id);
    for (TensorId output : op.outputs) {
      const auto readers = graph.consumers(output);
      next[op.id.index()].insert(next[op.id.index()].end(), readers.begin(), readers.end());
    }
  }
  std::vector<OpId> came_from(graph.ops().size(), kNoOp), queue{from};
  came_from[from.index()] = from;
  for (size_t q = 0; q < queue.size() && came_from[to.index()] == kNoOp; ++q) {
    for (OpId id : next[queue[q].index()]) {
      if (came_from[id.index()] != kNoOp) continue;
      came_from[id.index()] = queue[q];
      queue.push_back(id);
    }
  }
  if (came_from[to.index()] == kNoOp) return {};
  std::vector<OpId> path{to};
  while (path.back() != from) path.push_back(came_from[path.back().index()]);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

std::string MicrobatchName(absl::string_view name, int32_t microbatch) {
  return microbatch == 0 ? std::string(name) : absl::StrCat(name, "@", microbatch);
}

const Weight* Graph::FindWeight(TensorId id) const {
  for (const Weight& weight : weights_) {
    if (weight.tensor == id) return &weight;
  }
  return nullptr;
}

TensorId Graph::only(TensorRole role) const {
  const auto ids = tensors(role);
  CHECK(ids.size() <= 1) << name_;
  return ids.empty() ? kNoTensor : ids[0];
}

TensorType Graph::WholeType(TensorRole role) const {
  const auto ids = tensors(role);
  CHECK(!ids.empty()) << name_;
  TensorType type = tensor(ids[0]).type;
  for (TensorId id : ids.subspan(1)) type.shape[0] += tensor(id).type.shape[0];
  return type;
}

int64_t Graph::IndexLimitOf(TensorId input) const {
  if (tensor(input).kind == TensorKind::kLabels) {
    return std::max<int64_t>(1, WholeType(TensorRole::kLogits).shape.back());
  }
  std::optional<int64_t> limit;
  for (const Operator& op : ops_) {
    if (!op.pass.is_forward()) continue;  // a gradient reads what its forward operator does
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      if (op.inputs[k] != input) continue;
      const auto own = IndexLimit(op.attrs, static_cast<int>(k), InputShapes(op));
      if (own.has_value()) limit = std::min(limit.value_or(*own), *own);
    }
  }
  return std::max<int64_t>(1, limit.value_or(1));
}

int64_t Graph::FirstRowOf(TensorId input) const {
  const bool labels = tensor(input).kind == TensorKind::kLabels;
  int64_t rows = 0;
  for (TensorId id : tensors(labels ? TensorRole::kLabels : TensorRole::kSamples)) {
    if (id == input) break;
    rows += tensor(id).type.shape[0];
  }
  return rows;
}

std::vector<Shape> Graph::InputShapes(const Operator& op) const {
  return ShapesOf(tensors_, op.inputs);
}

std::vector<Shape> Graph::OutputShapes(const Operator& op) const {
  return ShapesOf(tensors_, op.outputs);
}

GraphBuilder::GraphBuilder(std::string name) { graph_.name_ = std::move(name); }

GraphBuilder::GraphBuilder(const Graph& graph) : graph_(graph) {
  for (const Tensor& tensor : graph_.tensors_) tensor_names_.insert(tensor.name);
  for (const Operator& op : graph_.ops_) op_names_.insert(op.name);
}

absl::StatusOr<TensorId> GraphBuilder::AddTensor(std::string name, TensorType type, TensorKind kind,
                                                 TensorId of) {
  if (!tensor_names_.insert(name).second) {
    return absl::InvalidArgumentError(absl::StrCat("two tensors are named '", name, "'"));
  }
  int64_t volume = 1;
  for (int64_t extent : type.shape) {
    const bool fits = extent >= 0 && extent <= kMaxExtent;
    if (!fits || (extent > 0 && volume > (int64_t{1} << 46) / extent)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", name, "' has shape ", ToString(type.shape),
          "; extents must be >= 0, at most ", kMaxExtent, ", and hold at most 2^46 elements"));
    }
    volume *= extent;
  }
  const TensorId id(static_cast<int32_t>(graph_.tensors_.size()));
  graph_.tensors_.push_back({id, std::move(name), std::move(type), kind, of});
  return id;
}

absl::StatusOr<TensorId> GraphBuilder::AddInput(std::string name, TensorType type) {
  ASSIGN_OR_RETURN(const TensorId id,
                   AddTensor(std::move(name), std::move(type), TensorKind::kInput, kNoTensor));
  AddRole(TensorRole::kSamples, id);
  return id;
}

absl::StatusOr<TensorId> GraphBuilder::AddLabels(std::string name, Shape shape) {
  ASSIGN_OR_RETURN(const TensorId id, AddTensor(std::move(name), {DType::kInt32, std::move(shape)},
                                                TensorKind::kLabels, kNoTensor));
  AddRole(TensorRole::kLabels, id);
  return id;
}

absl::StatusOr<TensorId> GraphBuilder::AddSeed(std::string name, TensorType type) {
  return AddTensor(std::move(name), std::move(type), TensorKind::kSeed, kNoTensor);
}

absl::StatusOr<TensorId> GraphBuilder::AddWeight(std::string name, TensorType type,
                                                 Initializer initializer,
                                                 std::shared_ptr<const std::vector<float>> values,
                                                 bool trainable) {
  const bool pending = values != nullptr && values->empty();
  if (values != nullptr && !pending && static_cast<int64_t>(values->size()) != Volume(type.shape)) {
    return absl::InvalidArgumentError(absl::StrCat("weight '", name, "' has ", values->size(),
                                                   " values for shape ", ToString(type.shape)));
  }
  ASSIGN_OR_RETURN(const TensorId id,
                   AddTensor(std::move(name), std::move(type), TensorKind::kWeight, kNoTensor));
  graph_.weights_.push_back({id, trainable, initializer, std::move(values)});
  return id;
}

absl::StatusOr<TensorId> GraphBuilder::AddState(std::string name, TensorId weight) {
  CHECK(tensor(weight).kind == TensorKind::kWeight);
  return AddTensor(std::move(name), tensor(weight).type, TensorKind::kState, weight);
}

absl::StatusOr<TensorId> GraphBuilder::AddActivation(std::string name, TensorType type) {
  return AddTensor(std::move(name), std::move(type), TensorKind::kActivation, kNoTensor);
}

absl::Status GraphBuilder::CheckInputs(const std::string& op, std::span<const TensorId> ids) const {
  for (TensorId id : ids) {
    if (id.value() < 0 || id.index() >= graph_.tensors_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("operator '", op, "' reads an unknown tensor"));
    }
    if (tensor(id).kind == TensorKind::kNext) {
      return absl::InvalidArgumentError(absl::StrCat("operator '", op, "' reads '", tensor(id).name,
                                                     "', which holds from the next step on"));
    }
  }
  return absl::OkStatus();
}

OpId GraphBuilder::Append(Operator op, ShardingRule rule) {
  op.id = OpId(static_cast<int32_t>(graph_.ops_.size()));
  if (op.forward == kNoOp) op.forward = op.id;
  if (op.anchor == kNoOp && op.anchor_weight == kNoTensor) op.anchor = op.id;
  graph_.ops_.push_back(std::move(op));
  graph_.rules_.push_back(std::move(rule));
  return graph_.ops_.back().id;
}

absl::StatusOr<OpId> GraphBuilder::AddOp(OpSpec spec) {
  if (!op_names_.insert(spec.name).second) {
    return absl::InvalidArgumentError(absl::StrCat("two operators are named '", spec.name, "'"));
  }
  RETURN_IF_ERROR(CheckInputs(spec.name, spec.inputs));
  const std::vector<TensorType> operands = TypesOf(graph_.tensors_, spec.inputs);
  auto results = InferResults(spec.attrs, operands);
  if (!results.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("operator '", spec.name, "': ", results.status().message()));
  }
  if (spec.outputs.empty()) {
    for (size_t k = 0; k < results->size(); ++k) {
      const std::string name = results->size() == 1 ? spec.name : absl::StrCat(spec.name, ":", k);
      ASSIGN_OR_RETURN(const TensorId id,
                       AddTensor(name, (*results)[k], TensorKind::kActivation, kNoTensor));
      spec.outputs.push_back(id);
    }
  } else if (TypesOf(graph_.tensors_, spec.outputs) != *results) {
    return absl::InvalidArgumentError(
        absl::StrCat("operator '", spec.name, "': its results do not fit the tensors it adds to"));
  }
  ShardingRule rule = MakeRule(spec.attrs, operands, *results);
  if (absl::Status status = ValidateRule(rule, operands, *results); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("operator '", spec.name, "': ", status.message()));
  }
  Operator op{.name = std::move(spec.name),
              .attrs = std::move(spec.attrs),
              .pass = Pass::Forward(),
              .inputs = std::move(spec.inputs),
              .outputs = std::move(spec.outputs),
              .forward = kNoOp,
              .anchor = spec.anchor,
              .microbatch = spec.microbatch};
  return Append(std::move(op), std::move(rule));
}

absl::StatusOr<TensorId> GraphBuilder::Add(OpSpec spec) {
  ASSIGN_OR_RETURN(const OpId id, AddOp(std::move(spec)));
  CHECK_EQ(op(id).outputs.size(), 1u);
  return op(id).outputs[0];
}

absl::StatusOr<OpId> GraphBuilder::AddGradient(OpId forward, int operand,
                                               std::vector<TensorId> gradients, TensorId result) {
  const Operator source = op(forward);
  CHECK(source.pass.is_forward());
  CHECK_EQ(gradients.size(), source.outputs.size());
  const GradientReads reads = ReadsForGradient(source.attrs, operand);
  Operator gradient{.name = absl::StrCat(source.name, ".d", operand),
                    .attrs = source.attrs,
                    .pass = Pass::Gradient(operand),
                    .outputs = {result},
                    .forward = forward,
                    .anchor = source.anchor,
                    .microbatch = source.microbatch};
  if (!op_names_.insert(gradient.name).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("two operators are named '", gradient.name, "'"));
  }
  for (int k : reads.operands) gradient.inputs.push_back(source.inputs[static_cast<size_t>(k)]);
  for (int k : reads.results) gradient.inputs.push_back(source.outputs[static_cast<size_t>(k)]);
  for (TensorId id : gradients) gradient.inputs.push_back(id);
  RETURN_IF_ERROR(CheckInputs(gradient.name, gradient.inputs));
  return Append(std::move(gradient), GradientRule(graph_.rules_[forward.index()], operand, reads));
}

absl::Status GraphBuilder::CheckUpdate(const UpdateSpec& spec) const {
  RETURN_IF_ERROR(CheckInputs(spec.name, spec.inputs));
  RETURN_IF_ERROR(CheckInputs(spec.name, spec.persistent));
  const auto made_of = [&](TensorId value) {
    const auto found = updated_.find(value);
    return found == updated_.end() ? value : found->second;
  };
  if (spec.persistent.empty() || spec.inputs.empty() ||
      tensor(spec.persistent[0]).kind != TensorKind::kWeight ||
      made_of(spec.inputs[0]) != spec.persistent[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat("update '", spec.name, "' should read the weight that it updates first"));
  }
  for (TensorId id : spec.persistent) {
    const TensorKind kind = tensor(id).kind;
    if (kind == TensorKind::kWeight || kind == TensorKind::kState) continue;
    return absl::InvalidArgumentError(absl::StrCat("update '", spec.name, "' updates '",
                                                   tensor(id).name,
                                                   "', which is neither weight nor state"));
  }
  return absl::OkStatus();
}

absl::StatusOr<OpId> GraphBuilder::AddUpdate(UpdateSpec spec) {
  RETURN_IF_ERROR(CheckUpdate(spec));
  std::vector<TensorId> outputs;
  for (TensorId id : spec.persistent) {
    const Tensor& now = tensor(id);
    const TensorType type = now.type;
    ASSIGN_OR_RETURN(const TensorId next,
                     spec.is_last
                         ? AddTensor(absl::StrCat(now.name, ".next"), type, TensorKind::kNext, id)
                         : AddActivation(MicrobatchName(now.name, spec.microbatch + 1), type));
    outputs.push_back(next);
  }
  ASSIGN_OR_RETURN(const OpId id, AddOp({.name = std::move(spec.name),
                                         .attrs = std::move(spec.attrs),
                                         .inputs = std::move(spec.inputs),
                                         .outputs = std::move(outputs),
                                         .microbatch = spec.microbatch}));
  Operator& update = graph_.ops_[id.index()];
  update.anchor = kNoOp;
  update.anchor_weight = spec.persistent[0];
  if (!spec.is_last) updated_[update.outputs[0]] = spec.persistent[0];
  return id;
}

void GraphBuilder::SetAnchor(OpId op, OpId anchor) { graph_.ops_[op.index()].anchor = anchor; }

void GraphBuilder::SetAfter(OpId op, std::vector<OpId> after) {
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  graph_.ops_[op.index()].after = std::move(after);
}

// Precondition: producers and consumers are filled in.
absl::Status GraphBuilder::CheckAfter(const Operator& op) const {
  if (op.after.empty() || op.after.back() < op.id) return absl::OkStatus();
  const Operator& later = this->op(op.after.back());
  const std::vector<OpId> path = PathBetween(graph_, op.id, later.id);
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("operator '", op.name, "' is after '",
                                                   later.name,
                                                   "', which comes behind it; put it before"));
  }
  std::string cycle;
  for (OpId id : path) absl::StrAppend(&cycle, "'", this->op(id).name, "' -> ");
  return absl::InvalidArgumentError(
      absl::StrCat("control edges and data make a cycle: ", cycle, "'", op.name, "'"));
}

void GraphBuilder::UseArithmetic(DType dtype) {
  for (Tensor& tensor : graph_.tensors_) {
    if (tensor.type.dtype != DType::kInt32) tensor.type.dtype = dtype;
  }
}

absl::StatusOr<Graph> GraphBuilder::Build() && {
  Graph& g = graph_;
  g.producers_.assign(g.tensors_.size(), {});
  g.consumers_.assign(g.tensors_.size(), {});
  g.anchors_.clear();
  g.weight_readers_.clear();
  std::vector<bool> updated(g.tensors_.size(), false);
  for (const Operator& op : g.ops_) {
    for (TensorId id : op.inputs) {
      if (updated[id.index()]) {
        return absl::InvalidArgumentError(absl::StrCat("operator '", op.name, "' reads '",
                                                       tensor(id).name, "' after its update"));
      }
      auto& readers = g.consumers_[id.index()];
      if (readers.empty() || readers.back() != op.id) readers.push_back(op.id);
    }
    for (TensorId id : op.outputs) {
      if (!g.consumers_[id.index()].empty()) {
        return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor(id).name,
                                                       "' is written by '", op.name,
                                                       "' after an operator has read it"));
      }
      g.producers_[id.index()].push_back(op.id);
    }
    for (TensorId id : op.outputs) {
      const Tensor& next = tensor(id);
      if (next.kind == TensorKind::kNext) updated[next.of.index()] = true;
    }
    if (op.anchor == op.id) g.anchors_.push_back(op.id);
    const bool reads_weight = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
      return tensor(id).kind == TensorKind::kWeight;
    });
    if (op.anchor != kNoOp && reads_weight) g.weight_readers_.push_back(op.id);
    if (op.anchor != kNoOp && this->op(op.anchor).anchor != op.anchor) {
      return absl::InvalidArgumentError(
          absl::StrCat("operator '", op.name, "' is anchored to one that is not an anchor"));
    }
  }
  for (const Operator& op : g.ops_) RETURN_IF_ERROR(CheckAfter(op));
  g.fingerprint_ = FingerprintOf(g.ops_, g.tensors_);
  return std::move(g);
}

Graph WithArithmetic(DType dtype, const Graph& graph) {
  GraphBuilder builder(graph);
  builder.UseArithmetic(dtype);
  auto form = std::move(builder).Build();
  CHECK(form.ok()) << form.status();
  return *std::move(form);
}

Graph WithRingArithmetic(const Graph& graph) { return WithArithmetic(DType::kRing64, graph); }

}  // namespace partita

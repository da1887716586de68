#include "graph/onnx/model.h"

#include <algorithm>
#include <queue>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

constexpr int kMaxNodes = 200'000;
constexpr int kMaxOperands = 4096;
constexpr int64_t kOldestOpset = 7;
constexpr int64_t kNewestOpset = 24;

absl::Status CheckParts(const ModelProto& proto) {
  if (!proto.has_graph()) return InvalidInput("the model has no graph");
  const GraphProto& graph = proto.graph();
  if (proto.functions_size() > 0) {
    return InvalidInput("the model defines ", proto.functions_size(),
                        " functions; export it with functions inlined");
  }
  if (graph.sparse_initializer_size() > 0)
    return InvalidInput("sparse initializers are not supported");
  if (graph.quantization_annotation_size() > 0)
    return InvalidInput("quantized models are not supported");
  if (graph.node_size() > kMaxNodes || graph.initializer_size() > kMaxNodes) {
    return InvalidInput("the graph has ", graph.node_size(), " nodes and ",
                        graph.initializer_size(), " initializers; at most ", kMaxNodes,
                        " of each are read");
  }
  return absl::OkStatus();
}

absl::Status ReadOpset(Model& model) {
  for (const OperatorSetIdProto& set : model.proto->opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") model.opset = set.version();
  }
  if (model.opset < kOldestOpset) {
    return InvalidInput("the model uses opset ", model.opset, "; the oldest that is read is ",
                        kOldestOpset, ": export it again with a newer opset");
  }
  if (model.opset > kNewestOpset) {
    model.notes.push_back(absl::StrCat("opset ", model.opset, " is newer than the newest known (",
                                       kNewestOpset, "); read as that"));
  }
  return absl::OkStatus();
}

absl::Status ReadInitializers(Model& model) {
  for (const TensorProto& tensor : model.proto->graph().initializer()) {
    if (tensor.name().empty()) return InvalidInput("an initializer has no name");
    ASSIGN_OR_RETURN(TensorSource source, DescribeTensor(tensor));
    if (!model.initializers.try_emplace(tensor.name(), StoredTensor{&tensor, std::move(source)})
             .second) {
      return InvalidInput("two initializers are named '", tensor.name(), "'");
    }
  }
  return absl::OkStatus();
}

// The declared shape; false if there is none. Open extents become -1.
absl::StatusOr<bool> ReadShape(const ValueInfoProto& value, Shape& shape) {
  if (value.type().value_case() != TypeProto::kTensorType) {
    return InvalidInput("'", value.name(), "' is not a tensor");
  }
  if (!value.type().tensor_type().has_shape()) return false;
  const TensorShapeProto& declared = value.type().tensor_type().shape();
  if (declared.dim_size() > 8) {
    return InvalidInput("'", value.name(), "' has ", declared.dim_size(),
                        " dimensions; at most 8 are supported");
  }
  for (const auto& dim : declared.dim()) {
    const bool open = dim.value_case() != TensorShapeProto::Dimension::kDimValue;
    if (!open && (dim.dim_value() < 0 || dim.dim_value() > kMaxExtent)) {
      return InvalidInput("'", value.name(), "' has extent ", dim.dim_value());
    }
    shape.push_back(open ? -1 : dim.dim_value());
  }
  return true;
}

absl::Status ReadInput(Model& model) {
  std::vector<std::string> names;
  for (const ValueInfoProto& value : model.proto->graph().input()) {
    if (model.initializers.contains(value.name())) continue;  // files older than IR 4 list weights
    names.push_back(value.name());
    if (names.size() > 1) continue;
    model.input.name = value.name();
    model.input.type = static_cast<ElementType>(value.type().tensor_type().elem_type());
    ASSIGN_OR_RETURN(const bool known, ReadShape(value, model.input.shape));
    if (!known) return InvalidInput("input '", value.name(), "' has no shape");
  }
  if (names.size() == 1 && !names[0].empty()) return absl::OkStatus();
  if (names.empty() || names[0].empty()) return InvalidInput("the model has no input");
  return InvalidInput("the model has ", names.size(), " inputs ('", names[0], "', '", names[1],
                      "', ...); models with one input are supported");
}

absl::Status ReadOutput(Model& model) {
  const GraphProto& graph = model.proto->graph();
  if (graph.output_size() == 0) return InvalidInput("the model has no output");
  model.output = graph.output(0).name();
  if (graph.output(0).has_type()) {
    ASSIGN_OR_RETURN(model.has_output_shape, ReadShape(graph.output(0), model.output_shape));
  }
  if (graph.output_size() > 1) {
    model.notes.push_back(absl::StrCat("of ", graph.output_size(), " outputs the first, '",
                                       model.output, "', is trained; the others are left out"));
  }
  return absl::OkStatus();
}

using Producers = absl::flat_hash_map<std::string, int>;

absl::StatusOr<Producers> FindProducers(const Model& model) {
  const GraphProto& graph = model.proto->graph();
  Producers producers;
  for (int n = 0; n < graph.node_size(); ++n) {
    const NodeProto& node = graph.node(n);
    if (node.op_type().empty()) return InvalidInput("node ", n, " names no operator");
    if (node.input_size() > kMaxOperands || node.output_size() > kMaxOperands ||
        node.attribute_size() > kMaxOperands) {
      return InvalidInput(Describe(node), " has more than ", kMaxOperands,
                          " inputs, outputs or "
                          "attributes");
    }
    for (const std::string& name : node.output()) {
      if (name.empty()) continue;
      if (name == model.input.name || model.initializers.contains(name) ||
          !producers.try_emplace(name, n).second) {
        return InvalidInput("'", name, "', which ", Describe(node), " computes, is defined twice");
      }
    }
  }
  for (const NodeProto& node : graph.node()) {
    for (const std::string& name : node.input()) {
      if (!name.empty() && name != model.input.name && !model.initializers.contains(name) &&
          !producers.contains(name)) {
        return InvalidInput(Describe(node), " reads '", name, "', which nothing defines");
      }
    }
  }
  return producers;
}

// Marks the nodes that the output needs, without recursion.
std::vector<bool> FindLive(const Model& model, const Producers& producers, int root) {
  const GraphProto& graph = model.proto->graph();
  std::vector<bool> live(static_cast<size_t>(graph.node_size()));
  std::vector<int> stack = {root};
  live[static_cast<size_t>(root)] = true;
  while (!stack.empty()) {
    const NodeProto& node = graph.node(stack.back());
    stack.pop_back();
    for (const std::string& name : node.input()) {
      const auto found = producers.find(name);
      if (found == producers.end() || live[static_cast<size_t>(found->second)]) continue;
      live[static_cast<size_t>(found->second)] = true;
      stack.push_back(found->second);
    }
  }
  return live;
}

// Orders the live nodes topologically, as close to the file's order as that allows.
absl::Status OrderNodes(Model& model, const Producers& producers, const std::vector<bool>& live) {
  const GraphProto& graph = model.proto->graph();
  const auto count = static_cast<size_t>(graph.node_size());
  std::vector<int> waits(count);
  std::vector<std::vector<int>> readers(count);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  size_t live_count = 0;
  for (int n = 0; n < graph.node_size(); ++n) {
    if (!live[static_cast<size_t>(n)]) continue;
    ++live_count;
    for (const std::string& name : graph.node(n).input()) {
      const auto found = producers.find(name);
      if (found == producers.end()) continue;
      ++waits[static_cast<size_t>(n)];
      readers[static_cast<size_t>(found->second)].push_back(n);
    }
    if (waits[static_cast<size_t>(n)] == 0) ready.push(n);
  }
  bool moved = false;
  for (int last = -1; !ready.empty();) {
    const int n = ready.top();
    ready.pop();
    moved |= n < last;
    last = n;
    model.nodes.push_back(&graph.node(n));
    for (int reader : readers[static_cast<size_t>(n)]) {
      if (--waits[static_cast<size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (model.nodes.size() < live_count) {
    for (size_t n = 0; n < count; ++n) {
      if (live[n] && waits[n] > 0) {
        return InvalidInput("the graph has a cycle; ", Describe(graph.node(static_cast<int>(n))),
                            " is on it or behind it");
      }
    }
  }
  if (moved) model.notes.push_back("the nodes were not in topological order; sorted");
  const size_t dead = count - live_count;
  if (dead > 0) {
    model.notes.push_back(
        absl::StrCat(dead, " nodes that '", model.output, "' does not need are left out"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Describe(const NodeProto& node) {
  std::string name = node.name();
  if (name.empty() && node.output_size() > 0) name = node.output(0);
  const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
  return absl::StrCat(standard ? "" : absl::StrCat(node.domain(), "::"), node.op_type(), " '", name,
                      "'");
}

absl::StatusOr<Model> CheckModel(std::unique_ptr<const ModelProto> proto, Origin origin) {
  Model model;
  model.proto = std::move(proto);
  model.origin = std::move(origin);
  RETURN_IF_ERROR(CheckParts(*model.proto));
  RETURN_IF_ERROR(ReadOpset(model));
  RETURN_IF_ERROR(ReadInitializers(model));
  RETURN_IF_ERROR(ReadInput(model));
  RETURN_IF_ERROR(ReadOutput(model));
  ASSIGN_OR_RETURN(const Producers producers, FindProducers(model));
  const auto root = producers.find(model.output);
  if (root == producers.end()) {
    return InvalidInput("no node computes the output '", model.output, "'");
  }
  RETURN_IF_ERROR(OrderNodes(model, producers, FindLive(model, producers, root->second)));
  return model;
}

}  // namespace partita::onnx

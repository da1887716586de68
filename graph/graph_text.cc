#include "graph/graph_text.h"

#include <span>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

std::string TensorList(const Graph& graph, std::span<const TensorId> ids) {
  std::string text;
  for (TensorId id : ids) {
    const Tensor& tensor = graph.tensor(id);
    absl::StrAppend(&text, text.empty() ? "" : ", ", tensor.name, " ", ToString(tensor.type));
  }
  return text;
}

// "conv2d stride=[4,4]", for gradients "conv2d.d1 stride=[4,4]".
std::string KindText(const Operator& op) {
  std::string text = ToString(op.attrs);
  if (!op.pass.is_forward()) {
    text.insert(NameOf(op.attrs).size(), absl::StrCat(".d", int{op.pass.gradient}));
  }
  return text;
}

std::string PersistentText(const Graph& graph, const Tensor& tensor) {
  const bool state = tensor.kind == TensorKind::kState;
  std::string text =
      absl::StrCat(state ? "state " : "weight ", tensor.name, " ", ToString(tensor.type));
  if (state) {
    absl::StrAppend(&text, " of ", graph.tensor(tensor.of).name);
  } else if (const Weight* weight = graph.FindWeight(tensor.id); !weight->trainable) {
    absl::StrAppend(&text, " not trained");
  }
  return text;
}

}  // namespace

std::string OperatorText(const Graph& graph, const Operator& op) {
  std::string text =
      absl::StrCat(op.name, " = ", KindText(op), " (", TensorList(graph, op.inputs), ") -> ",
                   TensorList(graph, op.outputs), "  rule ", ToString(graph.rule(op.id)));
  if (op.anchor_weight != kNoTensor) {
    absl::StrAppend(&text, "  update of ", graph.tensor(op.anchor_weight).name);
  } else if (op.anchor != op.id) {
    absl::StrAppend(&text, "  anchor ", graph.op(op.anchor).name);
  }
  for (size_t k = 0; k < op.after.size(); ++k) {
    absl::StrAppend(&text, k == 0 ? "  after " : ", ", graph.op(op.after[k]).name);
  }
  return text;
}

std::string GraphText(const Graph& graph) {
  std::string text = absl::StrCat("graph ", graph.name(), "\n");
  for (const Tensor& tensor : graph.tensors()) {
    switch (tensor.kind) {
      case TensorKind::kInput:
        absl::StrAppend(&text, "input ", tensor.name, " ", ToString(tensor.type), "\n");
        break;
      case TensorKind::kLabels:
        absl::StrAppend(&text, "labels ", tensor.name, " ", ToString(tensor.type), "\n");
        break;
      case TensorKind::kSeed:
        absl::StrAppend(&text, "seed ", tensor.name, " ", ToString(tensor.type), "\n");
        break;
      case TensorKind::kWeight:
      case TensorKind::kState:
        absl::StrAppend(&text, PersistentText(graph, tensor), "\n");
        break;
      case TensorKind::kActivation:
      case TensorKind::kNext:
        break;
    }
  }
  for (const Operator& op : graph.ops()) absl::StrAppend(&text, OperatorText(graph, op), "\n");
  for (TensorId id : graph.tensors(TensorRole::kLogits)) {
    absl::StrAppend(&text, "logits ", graph.tensor(id).name, "\n");
  }
  return text;
}

}  // namespace partita

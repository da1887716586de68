#include "graph/task/kernel_signature.h"

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

std::string TensorsText(const std::vector<KernelTensor>& tensors) {
  std::string text = "(";
  for (size_t k = 0; k < tensors.size(); ++k) {
    const KernelTensor& t = tensors[k];
    absl::StrAppend(&text, k > 0 ? "," : "", t.present ? ToString(t.type) : "-",
                    t.format == Format::kNative ? "n" : "");
  }
  return text + ")";
}

std::vector<TensorType> PresentTypes(const std::vector<KernelTensor>& tensors) {
  std::vector<TensorType> types;
  for (const KernelTensor& t : tensors) types.push_back(t.type);
  return types;
}

}  // namespace

std::string ToString(const KernelSignature& signature) {
  std::string text(NameOf(signature.attrs));
  if (!signature.pass.is_forward()) absl::StrAppend(&text, ".d", int{signature.pass.gradient});
  const std::string attrs = ToString(signature.attrs);
  absl::StrAppend(&text, attrs.substr(NameOf(signature.attrs).size()), " ",
                  TensorsText(signature.inputs), "->", TensorsText(signature.outputs));
  if (signature.fused_relu) absl::StrAppend(&text, " relu");
  if (signature.fused_update) absl::StrAppend(&text, " into ", ToString(*signature.fused_update));
  return text;
}

size_t OwnInputs(const KernelSignature& signature) {
  return signature.fused_update ? signature.inputs.size() - signature.outputs.size()
                                : signature.inputs.size();
}

KernelSignature GradientKernel(const KernelSignature& signature) {
  KernelSignature gradient = signature;
  gradient.fused_update.reset();
  gradient.inputs.resize(OwnInputs(signature));
  gradient.outputs.resize(1);
  return gradient;
}

KernelSignature UpdateKernel(const KernelSignature& signature) {
  KernelSignature update{*signature.fused_update, Pass::Forward(), {}, signature.outputs};
  const auto own = static_cast<std::ptrdiff_t>(OwnInputs(signature));
  update.inputs.assign(signature.inputs.begin() + own, signature.inputs.end());
  update.inputs.insert(update.inputs.begin() + kGradientInput, signature.outputs[0]);
  return update;
}

std::vector<InPlacePair> InPlace(const KernelSignature& signature) {
  if (!signature.fused_update) return InPlace(signature.attrs, signature.pass);
  std::vector<InPlacePair> pairs = InPlace(*signature.fused_update, Pass::Forward());
  // The gradient is not among the inputs.
  const int own = static_cast<int>(OwnInputs(signature));
  for (InPlacePair& pair : pairs)
    pair.input += own - (pair.input > static_cast<int>(kGradientInput) ? 1 : 0);
  return pairs;
}

Work WorkOf(const KernelSignature& signature) {
  if (signature.fused_update) {
    Work work = WorkOf(GradientKernel(signature));
    const Work update = WorkOf(UpdateKernel(signature));
    work.multiply_adds += update.multiply_adds;
    work.other += update.other;
    return work;
  }
  return WorkOf(signature.attrs, signature.pass, PresentTypes(signature.inputs),
                PresentTypes(signature.outputs));
}

int64_t MinimumBytes(const KernelSignature& signature) {
  int64_t bytes = 0;
  for (const KernelTensor& t : signature.inputs) bytes += t.present ? t.type.bytes() : 0;
  for (const KernelTensor& t : signature.outputs) bytes += t.present ? t.type.bytes() : 0;
  return bytes;
}

std::string ToString(const MoveSignature& signature) {
  static constexpr const char* kNames[] = {"fill", "copy", "add", "max", "reorder"};
  return absl::StrCat("move.", kNames[static_cast<int>(signature.kind)], " ", Name(signature.dtype),
                      " ", signature.elements, " run=", signature.run);
}

}  // namespace partita

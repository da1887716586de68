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
  return text;
}

Work WorkOf(const KernelSignature& signature) {
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

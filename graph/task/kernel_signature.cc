#include "graph/task/kernel_signature.h"

#include <algorithm>
#include <cstddef>

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

using List = TensorPlace::List;

std::string PlacesText(const std::vector<TensorPlace>& places) {
  static constexpr char kLetters[] = {'i', 'o', 't'};
  std::string text = "(";
  for (const TensorPlace& place : places) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "",
                    std::string(1, kLetters[static_cast<size_t>(place.list)]), place.index);
  }
  return text + ")";
}

std::vector<TensorType> TypesOf(const std::vector<KernelTensor>& tensors) {
  std::vector<TensorType> types;
  for (const KernelTensor& t : tensors) types.push_back(t.type);
  return types;
}

int32_t CountOf(const std::vector<KernelTensor>& tensors) {
  return static_cast<int32_t>(tensors.size());
}

std::vector<TensorPlace> Places(List list, size_t count) {
  std::vector<TensorPlace> places;
  for (size_t k = 0; k < count; ++k) places.push_back({list, static_cast<int32_t>(k)});
  return places;
}

Wiring WholeWiring(const KernelSignature& signature) {
  return {Places(List::kInput, signature.inputs.size()),
          Places(List::kOutput, signature.outputs.size())};
}

const KernelTensor& TensorAt(const KernelSignature& signature, TensorPlace place) {
  const auto index = static_cast<size_t>(place.index);
  if (place.list == List::kInput) return signature.inputs[index];
  return place.list == List::kOutput ? signature.outputs[index] : signature.fusion.inner[index];
}

}  // namespace

std::string ToString(const KernelSignature& signature) {
  std::string text(NameOf(signature.attrs));
  if (!signature.pass.is_forward()) absl::StrAppend(&text, ".d", int{signature.pass.gradient});
  const std::string attrs = ToString(signature.attrs);
  absl::StrAppend(&text, attrs.substr(NameOf(signature.attrs).size()), " ",
                  TensorsText(signature.inputs), "->", TensorsText(signature.outputs));
  absl::StrAppend(&text, FusionText(signature));
  if (!signature.deterministic) absl::StrAppend(&text, " nondeterministic");
  if (signature.compute_type != Precision::kFloat32) {
    absl::StrAppend(&text, " precision=", RowOf(signature.compute_type).name);
  }
  return text;
}

KernelSignature InPrecision(KernelSignature signature, Precision precision) {
  const bool differs = precision != Precision::kFloat32 && WorkOf(signature).multiply_adds > 0;
  signature.compute_type = differs ? precision : Precision::kFloat32;
  return signature;
}

KernelSignature WithDeterminism(KernelSignature signature, bool deterministic) {
  signature.deterministic = deterministic || WorkOf(signature).multiply_adds == 0;
  return signature;
}

// " relu" for an epilogue, " into sgd nesterov=false" for an update, " then sum_exp (i0,o0)->(o1)"
// for others.
std::string FusionText(const KernelSignature& signature) {
  std::string text;
  for (const FusedOperator& other : signature.fusion.rest) {
    const std::string attrs = ToString(other.attrs);
    if (IsEpilogue(other.attrs)) {
      absl::StrAppend(&text, " ", attrs);
    } else if (TakesGradient(other.attrs)) {
      absl::StrAppend(&text, " into ", attrs);
    } else {
      absl::StrAppend(&text, " then ", attrs, " ", PlacesText(other.wiring.inputs), "->",
                      PlacesText(other.wiring.outputs));
    }
  }
  return text;
}

std::vector<KernelStage> StagesOf(const KernelSignature& signature) {
  std::vector<KernelStage> stages(1);
  KernelSignature& first = stages[0].kernel;
  first = {signature.attrs, signature.pass, {}, {}};
  stages[0].wiring = signature.is_fused() ? signature.fusion.first : WholeWiring(signature);
  for (const FusedOperator& other : signature.fusion.rest) {
    stages.push_back({{other.attrs, other.pass, {}, {}}, other.wiring});
  }
  for (KernelStage& stage : stages) {
    for (TensorPlace place : stage.wiring.inputs) {
      stage.kernel.inputs.push_back(TensorAt(signature, place));
    }
    for (TensorPlace place : stage.wiring.outputs) {
      stage.kernel.outputs.push_back(TensorAt(signature, place));
    }
    stage.kernel = WithDeterminism(InPrecision(std::move(stage.kernel), signature.compute_type),
                                   signature.deterministic);
  }
  return stages;
}

KernelSignature WithEpilogue(KernelSignature kernel, const OpAttrs& epilogue) {
  if (!kernel.is_fused()) kernel.fusion.first = WholeWiring(kernel);
  const Wiring& last = kernel.is_fused() ? kernel.fusion.rest.back().wiring : kernel.fusion.first;
  const std::vector<TensorPlace> result = {last.outputs[0]};
  kernel.fusion.rest.push_back({epilogue, Pass::Forward(), {result, result}});
  return kernel;
}

bool HasOnlyEpilogue(const KernelSignature& signature) {
  return signature.fusion.rest.size() == 1 && IsEpilogue(signature.fusion.rest[0].attrs);
}

KernelSignature Fused(KernelSignature kernel, const KernelSignature& next,
                      const InputLinks& links) {
  if (!kernel.is_fused()) kernel.fusion.first = WholeWiring(kernel);
  FusedOperator added{next.attrs, next.pass, {}};
  for (size_t k = 0; k < next.inputs.size(); ++k) {
    added.wiring.inputs.push_back(
        links[k].has_value() ? *links[k] : TensorPlace{List::kInput, CountOf(kernel.inputs)});
    if (!links[k].has_value()) kernel.inputs.push_back(next.inputs[k]);
  }
  for (const KernelTensor& output : next.outputs) {
    added.wiring.outputs.push_back({List::kOutput, CountOf(kernel.outputs)});
    kernel.outputs.push_back(output);
  }
  kernel.fusion.rest.push_back(std::move(added));
  if (kernel.compute_type == Precision::kFloat32) kernel.compute_type = next.compute_type;
  kernel.deterministic = kernel.deterministic && next.deterministic;
  return kernel;
}

KernelSignature FusedUpdate(const KernelSignature& gradient, const KernelSignature& update) {
  KernelSignature kernel = gradient;
  kernel.fusion.inner = std::move(kernel.outputs);
  kernel.outputs.clear();
  InputLinks links(update.inputs.size());
  links[kGradientInput] = TensorPlace{List::kInner, 0};
  kernel = Fused(std::move(kernel), update, links);
  kernel.fusion.first.outputs = {{List::kInner, 0}};
  return kernel;
}

bool EndsInUpdate(const KernelSignature& signature) {
  return signature.is_fused() && TakesGradient(signature.fusion.rest.back().attrs);
}

std::vector<InPlacePair> InPlace(const KernelSignature& signature) {
  if (!signature.is_fused()) return InPlace(signature.attrs, signature.pass);
  const std::vector<KernelStage> stages = StagesOf(signature);
  std::vector<InPlacePair> pairs;
  for (size_t s = 0; s < stages.size(); ++s) {
    const Wiring& wiring = stages[s].wiring;
    for (InPlacePair own : InPlace(stages[s].kernel.attrs, stages[s].kernel.pass)) {
      const TensorPlace input = wiring.inputs[static_cast<size_t>(own.input)];
      const TensorPlace output = wiring.outputs[static_cast<size_t>(own.output)];
      const bool read_later =
          std::any_of(stages.begin() + static_cast<std::ptrdiff_t>(s) + 1, stages.end(),
                      [&](const KernelStage& later) {
                        const auto& inputs = later.wiring.inputs;
                        return std::find(inputs.begin(), inputs.end(), input) != inputs.end();
                      });
      if (input.list != List::kInput || output.list != List::kOutput || read_later) continue;
      pairs.push_back({input.index, output.index});
    }
  }
  return pairs;
}

Work WorkOf(const KernelSignature& signature) {
  if (!signature.is_fused()) {
    return WorkOf(signature.attrs, signature.pass, TypesOf(signature.inputs),
                  TypesOf(signature.outputs));
  }
  Work work;
  for (const KernelStage& stage : StagesOf(signature)) {
    // What an epilogue does to a result on its way to memory takes no time of its own.
    if (IsEpilogue(stage.kernel.attrs)) continue;
    const Work own = WorkOf(stage.kernel.attrs, stage.kernel.pass, TypesOf(stage.kernel.inputs),
                            TypesOf(stage.kernel.outputs));
    work.multiply_adds += own.multiply_adds;
    work.other += own.other;
  }
  return work;
}

int64_t MinimumBytes(const KernelSignature& signature) {
  int64_t bytes = 0;
  for (const KernelTensor& t : signature.inputs) bytes += t.present ? t.type.bytes() : 0;
  for (const KernelTensor& t : signature.outputs) bytes += t.present ? t.type.bytes() : 0;
  return bytes;
}

std::string ToString(const MoveSignature& signature) {
  static constexpr const char* kNames[] = {"fill", "copy", "add", "max", "reorder"};
  const std::string from =
      signature.from == signature.dtype ? "" : absl::StrCat(Name(signature.from), "->");
  return absl::StrCat("move.", kNames[static_cast<int>(signature.kind)], " ", from,
                      Name(signature.dtype), " ", signature.elements, " run=", signature.run);
}

int64_t BytesOf(const MoveSignature& signature) {
  return signature.elements * std::max(SizeOf(signature.dtype), SizeOf(signature.from));
}

}  // namespace partita

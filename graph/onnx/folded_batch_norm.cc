#include "graph/onnx/folded_batch_norm.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace partita::onnx {
namespace {

// Operators into which it can be folded.
bool MayHold(const NodeProto& node) {
  constexpr std::array<absl::string_view, 4> kKinds = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
  return std::ranges::find(kKinds, node.op_type()) != kKinds.end();
}

// "pkg.onnxscript.rewriter.rule_name": "RemoveOptionalBiasFromConv, FuseBatchNormIntoConv", or
// "namespace": ": Net/bn1: torch.nn.modules.batchnorm.BatchNorm2d/...".
bool MetadataSayFolded(const NodeProto& node) {
  if (!MayHold(node)) return false;
  for (const StringStringEntryProto& entry : node.metadata_props()) {
    const std::string value = absl::AsciiStrToLower(entry.value());
    if (absl::EndsWith(entry.key(), "rule_name") &&
        (absl::StrContains(value, "batchnorm") || absl::StrContains(value, "batch_norm"))) {
      return true;
    }
    if ((entry.key() == "namespace" || absl::EndsWith(entry.key(), "class_hierarchy")) &&
        absl::StrContains(value, "torch.nn.modules.batchnorm.")) {
      return true;
    }
  }
  return false;
}

// Whether a word of the name is "bn", with or without a number, or names batch normalisation.
bool NamesBatchNorm(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (absl::string_view word : {"batchnorm", "batch_norm", "bnfusion", "convbn"}) {
    if (absl::StrContains(lower, word)) return true;
  }
  for (absl::string_view word : absl::StrSplit(lower, absl::ByAnyChar("/._-:"))) {
    while (!word.empty() && absl::ascii_isdigit(static_cast<unsigned char>(word.back()))) {
      word.remove_suffix(1);
    }
    if (word == "bn") return true;
  }
  return false;
}

// What suggests it, or "". The TorchScript exporter calls constants that it has computed
// "onnx::Conv_123", and a layer's own parameters by their names.
std::string SuspectName(const NodeProto& node) {
  if (!MayHold(node) || node.input_size() < 2) return "";
  for (int i = 1; i < node.input_size(); ++i) {
    if (NamesBatchNorm(node.input(i))) return node.input(i);
  }
  if (node.input_size() > 2 && absl::StartsWith(node.input(1), "onnx::Conv")) return node.input(1);
  if (NamesBatchNorm(node.name())) return node.name();
  if (node.output_size() > 0 && NamesBatchNorm(node.output(0))) return node.output(0);
  return "";
}

std::string LayerOf(const NodeProto& node) {
  constexpr absl::string_view kWeight = ".weight";
  if (node.input_size() > 1 && absl::EndsWith(node.input(1), kWeight)) {
    return node.input(1).substr(0, node.input(1).size() - kWeight.size());
  }
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

}  // namespace

std::vector<std::string> LayersWithFoldedBatchNorm(std::span<const NodeProto* const> nodes) {
  std::vector<std::string> layers;
  for (const NodeProto* node : nodes) {
    if (MetadataSayFolded(*node)) layers.push_back(LayerOf(*node));
  }
  return layers;
}

std::string NoteOfLikelyFolds(std::span<const NodeProto* const> nodes) {
  std::string first, name;
  int more = -1;
  for (const NodeProto* node : nodes) {
    if (MetadataSayFolded(*node)) continue;
    const std::string suspect = SuspectName(*node);
    if (suspect.empty()) continue;
    if (++more > 0) continue;
    first = LayerOf(*node);
    name = suspect;
  }
  if (more < 0) return "";
  return absl::StrCat("layer '", first, "'", more > 0 ? absl::StrCat(" and ", more, " more") : "",
                      ": the name '", name,
                      "' looks as if batch normalisation had been folded in (an export in "
                      "evaluation form); to train it, export the model in training form");
}

}  // namespace partita::onnx

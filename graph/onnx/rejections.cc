#include "graph/onnx/rejections.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace partita::onnx {
namespace {

constexpr size_t kMostGroups = 20;

// Nodes that are rejected for one reason: names and numbers in it do not count.
struct Group {
  const Rejection* first = nullptr;
  size_t nodes = 0;
};

// A reason without what is between quotes, and without digits.
std::string KindOf(const std::string& reason) {
  std::string kind;
  bool quoted = false;
  for (const char c : reason) {
    if (c == '\'') quoted = !quoted;
    if (!quoted && (c < '0' || c > '9')) kind += c;
  }
  return kind;
}

std::string AdviceOn(const Rejection& rejection) {
  static const std::set<std::string> kControlFlow = {"If", "Loop", "Scan"};
  const std::string& op = rejection.op_type;
  if (!rejection.domain.empty() && rejection.domain != "ai.onnx") {
    return absl::StrCat("it is of domain '", rejection.domain,
                        "': export with the standard operators, without fusing them for a runtime");
  }
  if (kControlFlow.contains(op)) {
    return "control flow depends on what is computed: export by tracing, for one batch and "
           "sequence length";
  }
  if (absl::StrContains(op, "Quantize") || absl::StartsWith(op, "QLinear") ||
      absl::EndsWith(op, "Integer")) {
    return "export the model before it is quantised";
  }
  if (absl::StartsWith(rejection.reason, "supported from opset")) {
    return "export with a later opset_version";
  }
  if (rejection.reason == "supported on constants only") {
    return "what it reads depends on the samples: export with fixed shapes, without dynamic_axes";
  }
  if (!rejection.reason.empty()) return "";
  return op == "GRU" || op == "RNN" ? "LSTM is the recurrent layer that is supported"
                                    : "write it with operators that are supported";
}

}  // namespace

std::string Rejection::Line() const {
  return absl::StrCat(node, reason.empty() ? "" : ": ", reason);
}

std::string RejectionsText(std::span<const Rejection> rejections) {
  std::map<std::pair<std::string, std::string>, size_t> group_of;
  std::vector<Group> groups;
  std::set<std::string> operators;
  for (const Rejection& one : rejections) {
    operators.insert(one.op_type);
    const auto [found, added] =
        group_of.emplace(std::pair(one.op_type, KindOf(one.reason)), groups.size());
    if (added) groups.push_back({.first = &one});
    ++groups[found->second].nodes;
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.nodes > b.nodes; });
  std::string text = absl::StrCat("operators that are not supported (", rejections.size(),
                                  rejections.size() == 1 ? " node, " : " nodes, ", operators.size(),
                                  operators.size() == 1 ? " operator):" : " operators):");
  for (size_t k = 0; k < std::min(groups.size(), kMostGroups); ++k) {
    const auto& [first, nodes] = groups[k];
    const std::string advice = AdviceOn(*first);
    absl::StrAppend(&text, "\n  ", first->op_type, ", ", nodes,
                    nodes == 1 ? " node: " : " nodes: ", nodes == 1 ? "" : "first ", first->Line(),
                    advice.empty() ? "" : ". Try: ", advice);
  }
  if (groups.size() > kMostGroups) {
    absl::StrAppend(&text, "\n  and ", groups.size() - kMostGroups, " more");
  }
  return absl::StrCat(text,
                      "\n`partita list onnx_operators` shows what is; exporting in training form "
                      "without optimization keeps operators simple");
}

}  // namespace partita::onnx

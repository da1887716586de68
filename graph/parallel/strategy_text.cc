#include "graph/parallel/strategy_text.h"

#include "absl/strings/str_cat.h"

namespace partita {

std::string StrategyText(const Graph& graph, const Strategy& strategy) {
  std::string text;
  for (OpId id : graph.anchors()) {
    absl::StrAppend(&text, graph.op(id).name, " ",
                    ToString(graph.rule(id), strategy.configs[id.index()]), "\n");
  }
  const auto add = [&](const char* kind, TensorId tensor,
                       const std::optional<std::vector<PlacedBox>>& layout) {
    if (!layout.has_value()) return;
    absl::StrAppend(&text, "weight ", graph.tensor(tensor).name, " ", kind);
    const char* before = " ";
    for (const PlacedBox& piece : *layout) {
      absl::StrAppend(&text, before, ToString(piece.box), " on ", piece.device.value());
      before = ", ";
    }
    absl::StrAppend(&text, "\n");
  };
  for (size_t w = 0; w < strategy.weights.size(); ++w) {
    add("parameter", graph.weights()[w].tensor, strategy.weights[w].parameter);
    add("update", graph.weights()[w].tensor, strategy.weights[w].update);
    if (strategy.weights[w].prefetch.has_value()) {
      absl::StrAppend(&text, "weight ", graph.tensor(graph.weights()[w].tensor).name, " prefetch ",
                      *strategy.weights[w].prefetch, "\n");
    }
  }
  absl::StrAppend(&text, "host ", strategy.host_device.value(), "\n");
  return text;
}

}  // namespace partita

#include "graph/parallel/strategy_text.h"

#include "absl/strings/str_cat.h"
#include "graph/parallel/decision.h"

namespace partita {

std::string StrategyText(const Graph& graph, const Strategy& strategy) {
  std::string text;
  for (DecisionSubject subject : DecisionSubjects(graph)) {
    text += DecisionText(graph, DecisionIn(strategy, subject));
  }
  const auto step_text = [&](const CollectiveStepId& id) {
    return absl::StrCat(graph.tensor(id.tensor).name, " step ", id.step);
  };
  for (const AlgorithmChoice& choice : strategy.algorithms) {
    absl::StrAppend(&text, "collective ", step_text(choice.collective), " by ", choice.algorithm,
                    "\n");
  }
  for (const Bucket& bucket : strategy.buckets) {
    const char* before = "bucket of ";
    for (const CollectiveStepId& member : bucket.members) {
      absl::StrAppend(&text, before, step_text(member));
      before = ", ";
    }
    absl::StrAppend(&text, bucket.algorithm.empty() ? "" : " by ", bucket.algorithm, "\n");
  }
  return text;
}

}  // namespace partita

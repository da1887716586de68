#include "graph/parallel/strategy_text.h"

#include "graph/parallel/decision.h"

namespace partita {

std::string StrategyText(const Graph& graph, const Strategy& strategy) {
  std::string text;
  for (DecisionSubject subject : DecisionSubjects(graph, strategy)) {
    text += DecisionText(graph, DecisionIn(strategy, subject));
  }
  return text;
}

}  // namespace partita

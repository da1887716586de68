#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace partita {

// Builds the graph that evaluates a trained model on samples that it does not learn from: dropout
// is left out, batch normalisation takes its running statistics (those of the batch where the model
// keeps none), and nothing is updated. Then the same loss and number of correct rows as in
// training. Weights and operators keep their names, so that values and configurations can be
// carried over by name.
absl::StatusOr<Graph> BuildEvaluationGraph(const Graph& model);

}  // namespace partita

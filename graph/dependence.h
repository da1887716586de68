#pragma once

#include "graph/graph.h"

namespace partita {

// Whether the logits of a forward graph are computed from its samples: otherwise training it would
// learn nothing of them.
bool LogitsDependOnSamples(const Graph& model);

}  // namespace partita

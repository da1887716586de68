#pragma once

#include <istream>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "runtime/executor/executor.h"

namespace partita {

struct StepTurns {
  std::string weights;  // .safetensors, by the names of the graph's weights
  std::string batch;    // .safetensors: x [batch, ...] float32 and y [batch] int64
  StepArguments step;
};

// Trains on one fixed batch, a step for each line of `in`, so that another program can take turns
// with it: writes {"ms": wall time, "loss": loss} after each. `executor` is of `graph`.
absl::Status TakeTurns(const Graph& graph, Executor& executor, StepTurns turns, std::istream& in,
                       std::ostream& out);

}  // namespace partita

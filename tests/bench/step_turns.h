#pragma once

#include <istream>
#include <memory_resource>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/executor/executor.h"

namespace partita {

// One batch for every step of an executor, which outlives it. It comes as a loader's batches do:
// from the executor's batch memory and, where that stages batches, beside the step before.
class RepeatedBatch {
 public:
  RepeatedBatch(std::span<const float> x, std::span<const int32_t> y, Executor& executor);
  absl::StatusOr<StepResult> Step(const StepArguments& arguments);

 private:
  HostTensor input() const { return HostTensorOf(std::span<const float>(x_)); }
  HostTensor labels() const { return HostTensorOf(std::span<const int32_t>(y_)); }

  Executor& executor_;
  std::pmr::vector<float> x_;
  std::pmr::vector<int32_t> y_;
};

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

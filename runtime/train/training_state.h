#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "runtime/executor/executor.h"
#include "runtime/train/data/loader.h"

namespace partita {

// State from which training continues: whole tensors, so that it does not matter how they were
// split.
struct TrainingState {
  // Elements, indexed by TensorId, of weights and optimizer states, row-major; empty for other
  // tensors.
  std::vector<std::vector<std::byte>> values;
  int64_t step = 0;         // steps done
  LoaderPosition position;  // position of the next batch
  int64_t samples = 0;      // number of samples of the data that `position` is in; 0: unknown
  uint64_t seed = 0;        // seed of initial values, dropout and the order of the data
  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

// Whether a tensor is part of a TrainingState.
bool LivesBetweenSteps(const Tensor& tensor);

// Step 0: weights as InitialValues says, optimizer states 0. InvalidArgument for weights that are
// not floating point.
absl::StatusOr<TrainingState> InitialState(const Graph& graph, uint64_t seed);

// Weights and states that a step gives new values.
std::vector<TensorId> UpdatedTensors(const Graph& graph);
// InvalidArgument, naming the first weight or state, and its element, that is NaN or infinite, of
// those that steps update.
absl::Status CheckFinite(const Graph& graph, const TrainingState& state);

// Gives the devices the values of a state of this graph.
absl::Status WriteValues(const Graph& graph, const TrainingState& state, Executor& executor);
// The inverse. Tensors that live on no device keep the value they have in `state`.
absl::Status ReadValues(const Graph& graph, Executor& executor, TrainingState& state);

}  // namespace partita

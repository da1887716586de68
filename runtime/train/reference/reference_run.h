#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/training/training_graph.h"
#include "runtime/backend/kernel_arguments.h"
#include "runtime/train/reference/reference_folder.h"

namespace partita {

// Trainer of a training graph under comparison: serial, or split over devices.
struct Trainee {
  // One step on a batch; returns the loss before the update.
  std::function<absl::StatusOr<double>(std::span<const float> x, std::span<const int32_t> labels,
                                       const StepArguments& arguments)>
      step;
  // A whole tensor: weights as of now; logits and gradients of the last step, or NotFound where
  // they cannot be read, which leaves them out of the comparison.
  std::function<absl::StatusOr<std::vector<double>>(TensorId)> value;
};

// The training graph of a model as the reference trained it. InvalidArgument if the model's input
// is not of the reference's batch.
absl::StatusOr<Graph> BuildReferenceGraph(const Graph& model, const ReferenceFolder& reference);

// Trains as the reference did and returns the values for CompareWithReference. `graph` is what
// BuildReferenceGraph made.
absl::StatusOr<RunValues> TrainOnReference(const Graph& graph, const ReferenceFolder& reference,
                                           const Trainee& trainee);

}  // namespace partita

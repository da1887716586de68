#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace partita {

struct TrainingOptions {
  enum Optimizer : uint8_t { kSgd, kNesterov, kAdam };
  // kCrossEntropy: the mean over all rows of logits[rows..., classes], against int32 labels
  // [rows...]. kSumOfSquares: of all logits; there are then no labels, and nothing is counted as
  // correct. On integers it stays an integer, which proofs by equality of bits need.
  enum Loss : uint8_t { kCrossEntropy, kSumOfSquares };

  Optimizer optimizer = kSgd;  // kSgd: with momentum and weight decay; both may be 0 at run time
  Loss loss = kCrossEntropy;
  // Most microbatches whose activations are held at a time (see BuildTrainingGraph); 0: all.
  int in_flight = 1;
};

constexpr const char* Name(TrainingOptions::Optimizer optimizer) {
  switch (optimizer) {
    case TrainingOptions::kSgd:
      return "sgd";
    case TrainingOptions::kNesterov:
      return "nesterov";
    case TrainingOptions::kAdam:
      return "adam";
  }
  return "?";
}
// "sgd", "nesterov", "adam"; NotFound lists them.
absl::StatusOr<TrainingOptions::Optimizer> OptimizerNamed(absl::string_view name);

// One training step of `model` (a forward graph with input and logits): its operators, then the
// loss and the number of correct rows (tensors "loss" and "loss.correct"), the gradients "d:NAME"
// of whatever leads from trainable weights to the loss ("d:loss" is the seed), and one update
// operator "NAME.update" for each trainable weight that has a gradient, with states
// "NAME.momentum", or "NAME.moment1" and "NAME.moment2" for Adam. A model that ends in softmax or
// log-softmax is trained on what enters that, since cross-entropy applies softmax itself; that is
// then the graph's logits. Operators that nothing needs are left out.
// Loss of several microbatches: their losses and gradients add up, the loss being the mean
// over all of them, and the weights are updated once. The first `in_flight` microbatches go
// forward, then one goes backward and one forward in turns. Control edges hold each operator of a
// microbatch back until the gradients of the same operator for the microbatch `in_flight` before it
// have been computed.
// InvalidArgument if the model has no logits of rank >= 2 or nothing to train.
absl::StatusOr<Graph> BuildTrainingGraph(const Graph& model, const TrainingOptions& options);

}  // namespace partita

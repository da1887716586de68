#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace partita {

// The loss that a forward model is trained on. There is one loss: the mean over the batch, and over
// the steps of sequences, of the cross-entropy between class scores and their label.
struct ModelLoss {
  int64_t classes = 0;
};
std::string ToString(const ModelLoss& loss);  // "mean cross-entropy over 1000 classes"

// The one value of a user's --loss.
constexpr const char* kCrossEntropyName = "cross_entropy";

// The loss that the model's output can be taken for. InvalidArgument, with what is supported, where
// it cannot: one score or none, or not exactly one row of scores for each sample, or, where samples
// are sequences of integers, for each step of each sample. `named`: the user
// has asked for cross-entropy; without it an output with as many elements as the input, which does
// not end in softmax, is refused too: it is more likely an autoencoder's than that of a classifier.
absl::StatusOr<ModelLoss> LossOf(const Graph& model, bool named);

}  // namespace partita

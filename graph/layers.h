#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

// Layers of models that are several operators of the graph, for importers and the zoo. The last
// operator of a layer takes the layer's name, so does its result, and the others are anchored to
// it; their names are the layer's with an ending (".max", ".sum", ...).

namespace partita {

struct BatchNormLayer {
  std::string name;
  TensorId x;            // [n, c, ...]
  TensorId gamma, beta;  // weights [c]
  // Weights [c] that are not trained. Without `frozen` they may be kNoTensor: then no running
  // statistics are kept.
  TensorId running_mean = kNoTensor, running_variance = kNoTensor;
  double epsilon = 1e-5;
  double momentum = 0.1;  // the weight of the new value: PyTorch's convention, 1 - ONNX's
  bool frozen = false;    // normalise by the running statistics and leave them
};
absl::StatusOr<TensorId> AddBatchNorm(GraphBuilder& builder, const BatchNormLayer& layer);

// A cell of an LSTM layer: of the sequence's first one h and c are kNoTensor. Weights [4 units, in],
// [4 units, units] and a bias [4 units] (kNoTensor: none), in the order of graph/ops/lstm_gates.h.
struct LstmCell {
  std::string name;
  TensorId x;  // [rows..., in]
  TensorId input_weight, hidden_weight, bias = kNoTensor;
  TensorId h = kNoTensor, c = kNoTensor;  // [rows..., units]
};
struct LstmState {
  TensorId h, c;
};
absl::StatusOr<LstmState> AddLstmCell(GraphBuilder& builder, const LstmCell& cell);

// Appends a softmax over the last dimension.
absl::StatusOr<TensorId> AddSoftmax(GraphBuilder& builder, const std::string& name, TensorId x);
absl::StatusOr<TensorId> AddLogSoftmax(GraphBuilder& builder, const std::string& name, TensorId x);

absl::StatusOr<TensorId> AddDropout(GraphBuilder& builder, const std::string& name, TensorId x,
                                    double ratio);

// Local response normalisation over `lrn.size` channels; lrn.pads are filled in.
absl::StatusOr<TensorId> AddLrn(GraphBuilder& builder, const std::string& name, TensorId x,
                                Lrn lrn);

// The largest element of each row, and the sum of exp(x - max), which softmax and cross-entropy
// start from. `name` is the layer's; the caller anchors both operators.
struct SoftmaxStatistics {
  OpId max_op, sum_op;
  TensorId max, sum;
};
absl::StatusOr<SoftmaxStatistics> AddSoftmaxStatistics(GraphBuilder& builder,
                                                       const std::string& name, TensorId x,
                                                       int32_t microbatch = 0);

// Term that one microbatch adds to the loss of a batch.
struct LossTerm {
  TensorId logits;
  int32_t microbatch = 0;
  int microbatches = 1;  // of equal sizes
  OpId anchor = kNoOp;   // the loss operator of the first
};
// Adds the cross-entropy of logits[rows..., classes] against new labels [rows...] (tensor
// "labels"), divided by the rows of the whole batch, and the number of correct rows: tensors "loss"
// and "loss.correct" ("loss_2" and so on where the model uses these names itself), which the term
// of the first microbatch makes the graph's and those of the others add to. Returns the loss
// operator.
absl::StatusOr<OpId> AddCrossEntropyTerm(GraphBuilder& builder, const LossTerm& term);

// The tensors that cross-entropy takes: the model's results, or what enters them where the model
// ends in softmax or log-softmax, since cross-entropy applies softmax itself.
std::vector<TensorId> LogitsBeforeSoftmax(const Graph& model);

// InvalidArgument if this is not a model with inputs and results and without loss.
absl::Status CheckIsForwardModel(const Graph& model);

}  // namespace partita

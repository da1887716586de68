#include "graph/training/training_graph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/graph_copy.h"
#include "graph/layers.h"
#include "graph/support/known_names.h"
#include "graph/support/status_macros.h"
#include "graph/training/differentiation.h"

namespace partita {
namespace {

absl::Status AddUpdate(GraphBuilder& builder, TensorId weight, TensorId gradient,
                       TrainingOptions::Optimizer optimizer) {
  const std::string name = builder.tensor(weight).name;
  const std::string update = absl::StrCat(name, ".update");
  if (optimizer == TrainingOptions::kAdam) {
    ASSIGN_OR_RETURN(const TensorId m, builder.AddState(absl::StrCat(name, ".moment1"), weight));
    ASSIGN_OR_RETURN(const TensorId v, builder.AddState(absl::StrCat(name, ".moment2"), weight));
    return builder
        .AddUpdate({.name = update,
                    .attrs = Adam{},
                    .inputs = {weight, gradient, m, v},
                    .persistent = {weight, m, v}})
        .status();
  }
  ASSIGN_OR_RETURN(const TensorId v, builder.AddState(absl::StrCat(name, ".momentum"), weight));
  const Sgd sgd{.nesterov = optimizer == TrainingOptions::kNesterov};
  return builder
      .AddUpdate({.name = update,
                  .attrs = sgd,
                  .inputs = {weight, gradient, v},
                  .persistent = {weight, v}})
      .status();
}

// Puts together a step microbatch by microbatch.
class StepBuilder {
 public:
  // `model`: a forward graph in which every operator counts.
  StepBuilder(const Graph& model, const TrainingOptions& options)
      : model_(model),
        options_(options),
        in_flight_(options.in_flight > 0 ? options.in_flight : model.microbatches()),
        copy_(model),
        gradients_(copy_.builder(), model.microbatches()),
        blocks_(static_cast<size_t>(model.microbatches())) {
    for (const Operator& op : model.ops()) Of(op.microbatch).source.push_back(op.id);
  }

  absl::StatusOr<Graph> Run() {
    const int count = model_.microbatches();
    for (int k = 0; k < count; ++k) {
      RETURN_IF_ERROR(AddForward(k));
      if (k + 1 >= in_flight_) RETURN_IF_ERROR(AddBackward(k + 1 - in_flight_));
    }
    for (int k = std::max(0, count + 1 - in_flight_); k < count; ++k) {
      RETURN_IF_ERROR(AddBackward(k));
    }
    for (const Weight& weight : model_.weights()) {
      const TensorId gradient = gradients_.FindGradient(copy_.Map(weight.tensor));
      if (!weight.trainable || gradient == kNoTensor) continue;
      RETURN_IF_ERROR(AddUpdate(builder(), copy_.Map(weight.tensor), gradient, options_.optimizer));
    }
    return std::move(builder()).Build();
  }

 private:
  // The operators of one microbatch.
  struct Block {
    std::vector<OpId> source;   // of the model
    std::vector<OpId> forward;  // their copies and the loss's
    std::vector<OpId> backward;
  };

  GraphBuilder& builder() { return copy_.builder(); }
  Block& Of(int microbatch) { return blocks_[static_cast<size_t>(microbatch)]; }

  // Calls `add` and returns the operators that it adds.
  template <class Add>
  absl::StatusOr<std::vector<OpId>> Added(Add&& add) {
    std::vector<OpId> added;
    auto next = static_cast<int32_t>(builder().ops().size());
    RETURN_IF_ERROR(add());
    for (; next < static_cast<int32_t>(builder().ops().size()); ++next) added.emplace_back(next);
    return added;
  }

  absl::Status AddForward(int k) {
    Block& block = Of(k);
    ASSIGN_OR_RETURN(block.forward, Added([&]() -> absl::Status {
                       for (OpId id : block.source) {
                         RETURN_IF_ERROR(copy_.CopyOp(model_.op(id)));
                       }
                       copy_.CopyAnchors();
                       const TensorId logits =
                           model_.tensors(TensorRole::kLogits)[static_cast<size_t>(k)];
                       builder().AddRole(TensorRole::kLogits, copy_.Map(logits));
                       return AddLoss(k);
                     }));
    if (k >= in_flight_) HoldBack(block, Of(k - in_flight_));
    return absl::OkStatus();
  }

  absl::Status AddLoss(int k) {
    const TensorId logits = builder().tensors(TensorRole::kLogits)[static_cast<size_t>(k)];
    if (options_.loss == TrainingOptions::kCrossEntropy) {
      ASSIGN_OR_RETURN(const OpId term,
                       AddCrossEntropyTerm(builder(), {.logits = logits,
                                                       .microbatch = k,
                                                       .microbatches = model_.microbatches(),
                                                       .anchor = loss_}));
      if (k == 0) loss_ = term;
      return absl::OkStatus();
    }
    const auto sums = builder().tensors(TensorRole::kLoss);
    ASSIGN_OR_RETURN(const OpId term, builder().AddOp({.name = MicrobatchName("loss", k),
                                                       .attrs = SumOfSquares{},
                                                       .inputs = {logits},
                                                       .outputs = {sums.begin(), sums.end()},
                                                       .anchor = loss_,
                                                       .microbatch = k}));
    if (k > 0) return absl::OkStatus();
    loss_ = term;
    builder().AddRole(TensorRole::kLoss, builder().op(term).outputs[0]);
    return absl::OkStatus();
  }

  absl::Status AddBackward(int k) {
    const TensorId loss = builder().tensors(TensorRole::kLoss)[0];
    if (seed_ == kNoTensor) {
      const Tensor& tensor = builder().tensor(loss);
      ASSIGN_OR_RETURN(seed_, builder().AddSeed(absl::StrCat("d:", tensor.name), tensor.type));
    }
    ASSIGN_OR_RETURN(Of(k).backward,
                     Added([&] { return gradients_.AddGradients(Of(k).forward, loss, seed_); }));
    return absl::OkStatus();
  }

  // Operators that belong together have one anchor.
  void HoldBack(const Block& block, const Block& before) {
    absl::flat_hash_map<OpId, std::vector<OpId>> backward;  // by anchor
    for (OpId id : before.backward) backward[builder().op(id).anchor].push_back(id);
    for (OpId id : block.forward) {
      const auto found = backward.find(builder().op(id).anchor);
      if (found == backward.end()) continue;
      std::vector<OpId> after = builder().op(id).after;
      after.insert(after.end(), found->second.begin(), found->second.end());
      builder().SetAfter(id, std::move(after));
    }
  }

  const Graph& model_;
  const TrainingOptions& options_;
  const int in_flight_;
  GraphCopy copy_;
  Differentiation gradients_;
  std::vector<Block> blocks_;  // by microbatch
  OpId loss_ = kNoOp;          // the first microbatch's
  TensorId seed_ = kNoTensor;
};

}  // namespace

absl::StatusOr<TrainingOptions::Optimizer> OptimizerNamed(absl::string_view name) {
  std::vector<std::string> names;
  for (auto optimizer :
       {TrainingOptions::kSgd, TrainingOptions::kNesterov, TrainingOptions::kAdam}) {
    if (name == Name(optimizer)) return optimizer;
    names.emplace_back(Name(optimizer));
  }
  return UnknownNameError("optimizer", name, names);
}

absl::StatusOr<Graph> BuildTrainingGraph(const Graph& model, const TrainingOptions& options) {
  RETURN_IF_ERROR(CheckIsForwardModel(model));
  const auto logits = model.tensors(TensorRole::kLogits);
  std::vector<TensorId> results(logits.begin(), logits.end());
  if (options.loss == TrainingOptions::kCrossEntropy) results = LogitsBeforeSoftmax(model);
  ASSIGN_OR_RETURN(const Graph live, WithoutDeadOperators(model, results));
  return StepBuilder(live, options).Run();
}

}  // namespace partita

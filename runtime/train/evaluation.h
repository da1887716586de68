#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/data/data_source.h"
#include "runtime/train/data/loader.h"
#include "runtime/train/training_state.h"

namespace partita {

// Evaluation runs a forward-only program of its own (BuildEvaluationGraph) on the same devices:
// dropout left out, batch normalisation by running statistics, nothing updated.

// Strategy of the evaluation graph that follows one of the training graph. An operator takes the
// configuration of its namesake; one that changed (batch normalisation) keeps the degrees of loops
// of the same name and extent; where that cannot be, it runs whole on the configuration's first
// device. Weights keep their parameter layouts.
Strategy EvaluationStrategy(const Graph& evaluation, const Graph& training,
                            const Strategy& strategy, int devices);

struct EvaluationResult {
  int64_t samples = 0;
  double loss = 0;      // mean over the samples
  double accuracy = 0;  // share of labels that have the largest logit
};

// Evaluation of a model. Not thread safe.
class ModelEvaluation {
 public:
  // `model`: the forward model that the training graph was made from. Errors as
  // BuildEvaluationGraph, Partition and OpenExecutor.
  static absl::StatusOr<std::unique_ptr<ModelEvaluation>> Create(const Graph& model,
                                                                 const Graph& training,
                                                                 const Strategy& strategy,
                                                                 const PartitionOptions& options,
                                                                 const ExecutorSetup& setup);

  // Every sample of `source` once, in order, with the weights of `state` (of the training graph).
  // The last batch is filled up with copies of its first sample, whose share is then taken off (it
  // is measured by a batch of nothing else). `workers`, `broken`, `on_skip` of `loader` are used.
  // Cancelled when `stop` (may be null) becomes true; OutOfRange, naming the samples, where the
  // loss is NaN or infinite.
  absl::StatusOr<EvaluationResult> Run(const TrainingState& state,
                                       std::shared_ptr<const DataSource> source,
                                       const LoaderOptions& loader,
                                       const std::atomic<bool>* stop = nullptr);

  // Sets a function that Run calls after each batch, with how many are done, of how many.
  void OnBatch(std::function<void(int64_t done, int64_t wanted)> call) {
    on_batch_ = std::move(call);
  }

  const Graph& graph() const { return graph_; }

 private:
  struct Sums {
    double loss = 0, correct = 0;  // sums over the rows of a batch
  };
  ModelEvaluation(Graph graph, const Graph& training);
  absl::Status WriteWeights(const TrainingState& state);
  absl::StatusOr<Sums> RunBatch(const Batch& batch);
  // The error of a batch whose loss is not.
  absl::Status NotFinite(const Batch& batch, double loss) const;
  // Overwrites what a batch that is not full is padded with.
  absl::StatusOr<Sums> RunPaddedBatch(Batch& batch);

  const Graph graph_;
  // Weight of the training graph for each TensorId of the evaluation graph.
  std::vector<TensorId> training_id_;
  std::unique_ptr<Executor> executor_;
  size_t loss_output_ = 0, correct_output_ = 0;
  std::function<void(int64_t, int64_t)> on_batch_;
};

// Labels of each sample of a training or evaluation graph.
int64_t LabelsOfSample(const Graph& graph);

// A batch as the executor of the graph takes it.
HostTensor SamplesOf(const Batch& batch, const Graph& graph);
HostTensor LabelsOf(const Batch& batch);

// InvalidArgument unless samples and labels of `source` are what the graph takes.
absl::Status CheckSourceFits(const DataSource& source, const Graph& graph);

}  // namespace partita

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/backend/kernel_arguments.h"
#include "runtime/executor/executor.h"
#include "runtime/train/data/loader.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/metrics.h"
#include "runtime/train/periodic_checkpoints.h"
#include "runtime/train/training_state.h"

namespace partita {

struct TrainerOptions {
  // Length of the training, earlier runs included: a run that was interrupted and resumed with the
  // same options is the run that was not interrupted, bit for bit. One of the two; the other is 0.
  // Both 0: nothing is trained, the state is only evaluated.
  int64_t steps = 0;
  int64_t epochs = 0;
  bool only_evaluates() const { return steps == 0 && epochs == 0; }
  // Learning rate, momentum, weight decay and so on; step and seed come from the state.
  StepArguments arguments = {};
  // Steps between copies of the state on the host, when weights and states are also checked to be
  // finite and the devices' copies of each to be equal. What is not finite is traced from the last
  // one.
  int64_t snapshot_every = 64;
  int64_t evaluate_every = 0;               // steps; 0: only after the last
  const std::atomic<bool>* stop = nullptr;  // stop flag: when it becomes true, training ends after
                                            // the step
  // Port to the other processes, if each of them has a trainer of the same plan: rank 0's `stop`
  // and `checkpoints` count, and all end, or read the state, after the same step.
  MessagePort* port = nullptr;
  PeriodicCheckpoints* checkpoints = nullptr;  // checkpoints written during the training; outlives
                                               // the trainer
  // Records the timeline of every step; where the executor replays steps, whose timelines are
  // unknown, that of the first and of the last one.
  bool record_timeline = false;
  std::function<void(const StepReport&)> on_step = {};
  std::function<void(int64_t step, const EvaluationResult&)> on_evaluation = {};
};

// Data to train on. `loader`'s batch_size, epochs, last_batch and seed (the state's) are filled in.
struct TrainingData {
  std::shared_ptr<const DataSource> source;
  LoaderOptions loader = {};
};

// Data to evaluate on, if any; `evaluation` outlives the trainer.
struct EvaluationData {
  ModelEvaluation* evaluation = nullptr;
  TrainingData data = {};
};

// All that a training consists of but its graph and its devices.
struct Training {
  TrainingState start;
  TrainingData data;
  TrainerOptions options;
  EvaluationData evaluation = {};
};

// Trains a graph on an executor. Not thread safe but for the stop flag.
class Trainer {
 public:
  // `graph` is the executor's training graph; both outlive the trainer. InvalidArgument if the data
  // do not fit the graph or are not as many as those that the state's position is in, or the
  // options do not say how far to train.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const Graph& graph, Executor& executor,
                                                         Training training);

  // Trains on from the state to the end. Whatever it returns, metrics(), evaluation() and State()
  // have what was reached:
  //   Cancelled    the stop flag was set;
  //   OutOfRange   the loss, a weight or a state became infinite or NaN. The steps since the last
  //                snapshot were repeated with all values checked; the message names the first
  //                step, operator and tensor, or the sample. State() is the state before that step;
  //   Internal     copies of a weight or state, which it names, differ on the devices;
  //   other        errors of data, devices and communication. If the devices failed, State() is the
  //                last snapshot.
  absl::Status Run();

  const TrainingMetrics& metrics() const { return metrics_; }
  // The last one.
  const std::optional<EvaluationResult>& evaluation() const { return last_evaluation_; }
  // Timeline of the last step for which it was recorded.
  const std::vector<MeasuredInstruction>& timeline() const { return timeline_; }
  // The state that was reached, checked to be finite; errors as Run's.
  absl::StatusOr<TrainingState> State();

 private:
  Trainer(const Graph& graph, Executor& executor, Training training);
  absl::Status CompleteData();
  absl::StatusOr<std::unique_ptr<BatchLoader>> OpenLoader(LoaderPosition position) const;
  // Orders of rank 0 after a step.
  struct Orders {
    char stop = 0, save = 0;  // 1: yes
  };
  absl::StatusOr<Orders> OrdersHere() const;
  absl::Status WriteCheckpoint();
  absl::Status TrainOneStep(BatchLoader& loader);
  // A batch, and the position from which training continues after it.
  struct NextBatch {
    absl::StatusOr<Batch> batch;
    LoaderPosition after;
    int64_t waited_ns = 0;
  };
  static NextBatch Take(BatchLoader& loader);
  absl::StatusOr<StepResult> RunBatch(const Batch& batch, int64_t step);
  double LossOf(const StepResult& result) const { return result.outputs[loss_output_]; }
  void Report(const Batch& batch, StepResult result, int64_t waited_ns);
  absl::Status Snapshot();
  absl::Status Evaluate();
  // OK if all weights and states are finite; else the error that says where that arose.
  absl::Status CheckState();
  // The error of a run in which `what` is not finite after `steps` steps.
  absl::Status TraceNotFinite(const std::string& what, int64_t steps);
  absl::Status RepeatChecked(int64_t steps);
  absl::Status CheckBatch(const Batch& batch) const;

  const Graph& graph_;
  Executor& executor_;
  TrainingData data_;
  TrainerOptions options_;
  EvaluationData evaluation_;
  int64_t end_step_ = 0;
  size_t loss_output_ = 0;
  std::optional<size_t> correct_output_;
  // State of the devices, without values; and the copy of it on the host.
  TrainingState now_, snapshot_;
  int64_t finite_step_ = 0;  // last step after which the state was found to be finite
  bool devices_good_ = true;
  std::optional<NextBatch> ahead_;  // batch of the next step, if devices have begun to copy it
  TrainingMetrics metrics_;
  std::optional<EvaluationResult> last_evaluation_;
  std::vector<MeasuredInstruction> timeline_;
};

}  // namespace partita

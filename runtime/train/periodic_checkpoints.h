#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/support/thread.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/training_state.h"

namespace partita {

// Schedule of the checkpoints that a run writes, and of those that it keeps.
struct CheckpointSchedule {
  std::string name;  // name as in checkpoint_family.h
  int64_t every_steps = 0;
  double every_seconds = 0;  // one of the two
  int64_t keep = 3;          // number of NAME.step-... to keep, at least 1
};

// One file that was written, or was not.
struct CheckpointReport {
  std::string path;
  int64_t step = 0;
  std::optional<CheckpointMetric> best;  // metric by which it is the best so far
  absl::Status status;
};

// Writes the checkpoints of a run concurrently with its steps: a thread writes a copy of the state,
// at most one at a time. A save that is due every so many steps waits for the one before; one that
// is due by the clock is put off until that is done. The best state is that of the highest
// evaluation accuracy, or without evaluations the lowest mean of the training losses between two
// saves; of equal ones the first. What cannot be written is reported and tried again when the next
// is due; training goes on. One thread calls all members.
class PeriodicCheckpoints {
 public:
  using Write = std::function<absl::Status(const std::string& path, const Graph& graph,
                                           const TrainingState& state,
                                           const std::optional<CheckpointMetric>& metric)>;
  struct Options {
    CheckpointSchedule schedule;
    int64_t start = 0;                     // step at which the run begins
    bool evaluates = false;                // whether AddEvaluation is going to be called
    std::optional<CheckpointMetric> best;  // best metric of the state that the run resumes
    // Callback for each report, called between steps, in the order of writing.
    std::function<void(const CheckpointReport&)> on_report = [](const CheckpointReport&) {};
    Write write = SaveCheckpoint;
  };
  // `graph` outlives it.
  PeriodicCheckpoints(const Graph& graph, Options options);
  // Waits for the write that has begun.
  ~PeriodicCheckpoints();

  // Takes what steps and evaluations gave.
  void AddLoss(double loss);
  void AddEvaluation(const EvaluationResult& result);

  // Whether Save needs the state after this step.
  bool Due(int64_t step);
  // Copies the state and begins to write it to all files that are due.
  void Save(const TrainingState& state);

  // Waits for the write that has begun, and reports it.
  void Finish();

  // Time that the calling thread waited for writes to end.
  int64_t waited_ns() const { return waited_ns_; }
  int64_t written() const { return written_; }  // files
  int64_t failed() const { return failed_; }
  const std::optional<CheckpointReport>& best() const { return best_written_; }

 private:
  struct Job;
  bool StepIsDue(int64_t step) const;
  void Offer(const CheckpointMetric& metric);
  absl::Status Begin(const TrainingState& state, bool step_is_due);
  static void Run(const Graph& graph, const Options& options, Job& job);
  void Conclude();  // the job

  const Graph& graph_;
  const Options options_;
  std::unique_ptr<Job> job_;  // job with the memory of the copy; reused
  Thread thread_;             // thread of the write under way
  int64_t saved_ns_;          // start of the last save, by the steady clock
  int64_t saved_step_;
  double losses_ = 0;  // sum of losses since then
  int64_t steps_ = 0;  // number of steps since then
  std::optional<CheckpointMetric> best_, offered_;
  std::optional<CheckpointReport> best_written_;
  int64_t waited_ns_ = 0, written_ = 0, failed_ = 0;
};

}  // namespace partita

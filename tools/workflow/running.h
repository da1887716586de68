#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "graph/precision.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/checkpoint_family.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/metrics.h"
#include "runtime/train/periodic_checkpoints.h"
#include "runtime/train/trainer.h"
#include "tools/workflow/ranks.h"
#include "tools/workflow/stages.h"
#include "tools/workflow/training_model.h"

namespace partita {

struct RunRequest {
  std::string data = "synthetic", eval_data;
  int64_t eval_every = 0;
  int64_t steps = 0, epochs = 0;  // length of the training: one of them, or neither: 20 steps
  double learning_rate = 0.01, momentum = 0.9, weight_decay = 0;
  // Seed of initial values; absent: that of the checkpoint to resume, or 0.
  std::optional<uint64_t> init_seed;
  std::string save, load, resume;
  // Checkpoints during the run, in addition to `save`; neither: none.
  int64_t save_every_steps = 0;
  double save_every_seconds = 0;
  int64_t keep = 3;      // number of newest ones to keep
  std::string timeline;  // write the measured timeline of the last step here
  int workers = 2;
  double hang_seconds = 60;  // see ExecutorOptions
  // All devices of the plan, so many, share one GPU; 0: each has its own part of this machine.
  int virtual_devices = 0;
  std::vector<BackendOfClass> backends;  // see DevicesOf
  std::string communicator;              // a name of Communicators(); empty: what suits the devices
  bool no_replay = false;                // steps are always enqueued piece by piece
  Precision precision = Precision::kFloat32;   // precision of the devices that have it
  std::string profile = "partita.profile.db";  // with the algorithms that are fast on them
  bool cache_in_memory = false;
  bool skip_broken = false;
  const std::atomic<bool>* stop = nullptr;
  Ranks* ranks = nullptr;  // ranks, if this process runs one of the plan's devices; outlives the
                           // run
  std::function<void(const StepReport&)> on_step;
  std::function<void(int64_t, const EvaluationResult&)> on_evaluation;
  // The state from which the run continues, before its first step; what it writes during the run,
  // between steps. Of rank 0 only.
  std::function<void(const ResumePoint&)> on_resume;
  std::function<void(const CheckpointReport&)> on_checkpoint;
  // Callback of LoaderOptions for training and evaluation data, which may call it at the same time.
  std::function<void(absl::string_view)> on_skip;
};

struct RunOutcome {
  absl::Status
      status;  // Cancelled after an interruption, OutOfRange for NaN; metrics hold what was done
  TrainingMetrics metrics;
  std::optional<EvaluationResult> evaluation;
  // Reason why steps are not replayed, if this process has a GPU.
  absl::Status replay;
  std::vector<std::string> written;
  std::vector<std::string> notes;  // notes for people of what was not done
  // The outcome of checkpoints during the run.
  struct Checkpoints {
    int64_t written = 0, failed = 0;  // files
    int64_t waited_ns = 0;            // time waited for writes to end
    std::optional<CheckpointReport> best;
  };
  std::optional<Checkpoints> checkpoints;
};

// Trains a plan on this host, or one device of it with the other ranks, of which rank 0 reads what
// the run starts from and writes the files. Errors before the first step are the status of the
// result, InvalidArgument where a checkpoint is of another seed than the one asked for; those of
// training are in the outcome. A run that ends or is interrupted writes `save`; one that fails
// leaves it as it was and, in one process, writes what it had reached as FailedStatePath says,
// which its error then names. Ends the stages of program, buffers and measured timeline.
absl::StatusOr<RunOutcome> RunPlan(const LoadedPlan& loaded, const RunRequest& request,
                                   Stages* stages = nullptr);

}  // namespace partita

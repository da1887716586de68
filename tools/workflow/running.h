#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "graph/precision.h"
#include "graph/support/option.h"
#include "runtime/comm/communicators.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/checkpoint_family.h"
#include "runtime/train/data/loader.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/metrics.h"
#include "runtime/train/periodic_checkpoints.h"
#include "runtime/train/trainer.h"
#include "tools/workflow/option_checks.h"
#include "tools/workflow/ranks.h"
#include "tools/workflow/stages.h"
#include "tools/workflow/training_model.h"

namespace partita {

struct RunRequest {
  std::string data = "synthetic", eval_data;
  int64_t eval_every = 0;
  // Length of the training: one of them, or neither: kSteps. 0 steps: only evaluates.
  std::optional<int64_t> steps;
  int64_t epochs = 0;
  double learning_rate = StepArguments().learning_rate, momentum = StepArguments().momentum;
  double weight_decay = StepArguments().weight_decay;
  // Seed of initial values; absent: that of the checkpoint to resume, or 0.
  std::optional<uint64_t> init_seed;
  std::string save, load, resume;
  // Checkpoints during the run, in addition to `save`; neither: none.
  int64_t save_every_steps = 0;
  double save_every_seconds = 0;
  int64_t keep = CheckpointSchedule().keep;  // number of newest ones to keep
  std::string timeline;                      // write the measured timeline of the last step here
  std::optional<int> workers;                // threads that read samples; absent: see data_workers
  double hang_seconds = ExecutorOptions().hang_seconds;
  // All devices of the plan, so many, share one GPU; 0: each has its own part of this machine.
  int virtual_devices = 0;
  std::vector<BackendOfClass> backends;  // see DevicesOf
  std::string communicator;              // a name of Communicators(); empty: what suits the devices
  bool no_replay = false;                // steps are always enqueued piece by piece
  Precision precision = Precision::kFloat32;   // precision of the devices that have it
  bool nondeterministic = false;               // as in BuildPlannedStep
  std::string profile = "partita.profile.db";  // with the algorithms that are fast on them
  bool cache_in_memory = false;
  bool skip_broken = false;
  const std::atomic<bool>* stop = nullptr;
  Ranks* ranks = nullptr;  // ranks, if this process runs one of the plan's devices; outlives the
                           // run
  std::function<void(const StepReport&)> on_step;
  std::function<void(int64_t, const EvaluationResult&)> on_evaluation;
  // Callback with notes for people, before the first step.
  std::function<void(const std::string& note)> on_note;
  // Batches of an evaluation that are done, of how many.
  std::function<void(int64_t done, int64_t wanted)> on_evaluated;
  // The state from which the run continues, before its first step; what it writes during the run,
  // between steps. Of rank 0 only.
  std::function<void(const ResumePoint&)> on_resume;
  std::function<void(const CheckpointReport&)> on_checkpoint;
  // Callback of LoaderOptions for training and evaluation data, which may call it at the same time.
  std::function<void(absl::string_view)> on_skip;

  static constexpr int64_t kSteps = 20;  // where neither steps nor epochs are given

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    VisitTraining(self, InGroup("Training", visit));
    VisitFiles(self, InGroup("Checkpoints", visit));
    VisitDevices(self, InGroup("Machine", visit));
  }

  template <class Self, class Visitor>
  static void VisitTraining(Self& self, Visitor&& visit);
  template <class Self, class Visitor>
  static void VisitFiles(Self& self, Visitor&& visit);
  template <class Self, class Visitor>
  static void VisitDevices(Self& self, Visitor&& visit);
};

template <class Self, class Visitor>
void RunRequest::VisitTraining(Self& self, Visitor&& visit) {
  visit(Option{.name = "data",
               .help = "synthetic, synthetic_digits, an IDX folder, an image folder, "
                       "FILE.safetensors, or of words words:FILE or rows:FILE",
               .group = "Model and data"},
        self.data);
  visit(Option{.name = "eval_data",
               .help = "the same forms; evaluated at the end",
               .group = "Model and data"},
        self.eval_data);
  visit(Option{.name = "eval_every",
               .help = "steps between evaluations",
               .check = WholeNumber(1),
               .unset = "0",
               .fallback = "at the end only"},
        self.eval_every);
  visit(Option{.name = "steps",
               .help = "training steps, those before --resume included; 0: only evaluate",
               .check = WholeNumber(0),
               .fallback = OptionText(kSteps)},
        self.steps);
  visit(Option{.name = "epochs",
               .help = "passes over the data, instead of --steps",
               .check = WholeNumber(1),
               .unset = "0"},
        self.epochs);
  visit(Option{.name = "lr", .help = "learning rate", .check = NumberFrom(0)}, self.learning_rate);
  visit(Option{.name = "momentum", .help = "of sgd and nesterov", .check = Fraction()},
        self.momentum);
  visit(Option{.name = "weight_decay",
               .help = "times the weight, added to its gradient",
               .check = NumberFrom(0)},
        self.weight_decay);
  visit(Option{.name = "init_seed",
               .help = "of initial weights, synthetic data, data order and dropout",
               .check = Seed(),
               .fallback = "0, or that of the checkpoint"},
        self.init_seed);
}

template <class Self, class Visitor>
void RunRequest::VisitFiles(Self& self, Visitor&& visit) {
  visit(Option{.name = "save",
               .help = "write a checkpoint (safetensors) at the end",
               .check = OutputName()},
        self.save);
  visit(Option{.name = "load", .help = "start from these weights (safetensors)"}, self.load);
  visit(Option{.name = "resume",
               .help = "go on from a checkpoint; of NAME, or of a folder, from the newest that is "
                       "whole"},
        self.resume);
  visit(Option{.name = "timeline",
               .help = "where to write the measured timeline of the last step",
               .check = OutputName(),
               .fallback = "PLAN.measured.json, \"none\": nowhere",
               .group = "Output",
               .of_one_rank = true},
        self.timeline);
  visit(Option{.name = "data_workers",
               .help = "threads that read samples; 0: none",
               .check = WholeNumber(0, 1024),
               .fallback = "2; beside GPUs one for each core, up to 16",
               .group = "Model and data",
               .of_one_rank = true},
        self.workers);
  visit(Option{.name = "skip_broken",
               .help = "leave broken samples out instead of stopping, and say which",
               .group = "Model and data"},
        self.skip_broken);
}

template <class Self, class Visitor>
void RunRequest::VisitDevices(Self& self, Visitor&& visit) {
  visit(BackendOption("that runs the devices of a class, or all", "cuda for GPUs, cpu for cores"),
        self.backends);
  visit(Option{.name = "communicator",
               .help = "that connects the devices",
               .check = NameOf("communicator", NamesOf(Communicators())),
               .fallback = "what suits them (partita list communicators)"},
        self.communicator);
  visit(Option{.name = "virtual_devices",
               .help = "run all N devices of the plan on this machine's first GPU",
               .check = WholeNumber(1, 1024),
               .unset = "0"},
        self.virtual_devices);
  visit(Option{.name = "no_replay",
               .help = "have the host enqueue every step anew, where a GPU could replay a CUDA "
                       "graph",
               .of_one_rank = true},
        self.no_replay);
  visit(NondeterministicOption(), self.nondeterministic);
  visit(Option{.name = "profile",
               .help = "profile database in which the fastest algorithms of GPUs are kept",
               .check = PlaceName(),
               .of_one_rank = true},
        self.profile);
  visit(Option{.name = "hang_seconds",
               .help = "give up a step in which no device ends any work for so long",
               .check = NumberAbove(0),
               .of_one_rank = true},
        self.hang_seconds);
}

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

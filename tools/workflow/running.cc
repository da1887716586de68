#include "tools/workflow/running.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cost_model/discovery.h"
#include "graph/partition/planned_step.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "graph/task/timeline_details.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/gpus.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/data/open_data_source.h"
#include "runtime/train/measured_timeline.h"
#include "tools/workflow/dense_step.h"
#include "tools/workflow/memory_check.h"
#include "tools/workflow/output_path.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/profiling/kept_algorithms.h"
#include "tools/workflow/run_checkpoints.h"
#include "tools/workflow/stage_ends.h"

namespace partita {
namespace {

// Threads that read samples: as many as asked for; otherwise few where devices have the cores, and
// the process's share of the cores where all devices are GPUs, which leave them idle.
int ReadersOf(const RunRequest& request, const ExecutorSetup& setup) {
  constexpr int kMostReaders = 16;
  const int few = LoaderOptions().workers;
  if (request.workers.has_value()) return *request.workers;
  // Null: of another process.
  for (const PlacedDevice& device : setup.devices) {
    if (device.backend != nullptr && device.backend->RunsOnHost()) return few;
  }
  const int processes = request.ranks == nullptr ? 1 : request.ranks->port().size();
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / processes, few, kMostReaders);
}

absl::StatusOr<TrainingData> OpenData(const RunRequest& request, const std::string& spec,
                                      DataSplit split, uint64_t seed, const Graph& graph) {
  const Doing doing("opening data", spec);
  DataOptions options;
  options.spec = spec;
  options.split = split;
  const Shape input = graph.WholeType(TensorRole::kSamples).shape;
  options.shape.dims.assign(input.begin() + 1, input.end());
  options.classes = static_cast<int>(graph.WholeType(TensorRole::kLogits).shape.back());
  if (const TensorId x = graph.tensors(TensorRole::kSamples)[0];
      graph.tensor(x).type.dtype == DType::kInt32) {
    options.words = graph.IndexLimitOf(x);
    options.labels = LabelsOfSample(graph);
  }
  options.seed = seed;
  options.cache = request.cache_in_memory ? DataCache::kMemory : DataCache::kNone;
  ASSIGN_OR_RETURN(auto source, OpenDataSource(options));
  const std::string note = NoteOnClasses(*source);
  if (!note.empty() && request.on_note) request.on_note(note);
  TrainingData data;
  data.source = std::move(source);
  data.loader.broken = request.skip_broken ? BrokenSample::kSkip : BrokenSample::kFatal;
  data.loader.on_skip = request.on_skip;
  return data;
}

TrainerOptions OptionsOf(const RunRequest& request, bool records_timeline) {
  TrainerOptions options;
  options.steps = request.steps.value_or(request.epochs == 0 ? RunRequest::kSteps : 0);
  options.epochs = request.epochs;
  options.arguments.learning_rate = request.learning_rate;
  options.arguments.momentum = request.momentum;
  options.arguments.weight_decay = request.weight_decay;
  options.evaluate_every = request.eval_every;
  options.stop = request.stop;
  options.record_timeline = records_timeline;
  if (request.ranks != nullptr) options.port = &request.ranks->port();
  options.on_step = request.on_step;
  options.on_evaluation = request.on_evaluation;
  return options;
}

// Of the last step.
absl::StatusOr<Timeline> TimelineOfRun(const LoadedPlan& loaded, const Executor& executor,
                                       const Trainer& trainer, Ranks* ranks) {
  std::vector<std::string> names;
  for (const Device& device : loaded.plan.topology.devices()) names.push_back(device.name);
  std::vector<MeasuredInstruction> instructions = trainer.timeline();
  if (ranks != nullptr) {
    const auto tasks = static_cast<int64_t>(executor.program().tasks.tasks().size());
    ASSIGN_OR_RETURN(instructions, ranks->Gather(instructions, tasks));
  }
  const Program& program = executor.program();
  Timeline timeline =
      MeasuredTimeline(loaded.model.graph, program.tasks, instructions, "measured", names);
  const std::vector<std::string> splits = SplitsOf(loaded.model.graph, loaded.plan.strategy);
  AddDetails({.graph = loaded.model.graph,
              .tasks = program.tasks,
              .memory = &program.memory,
              .splits = splits},
             timeline);
  RETURN_IF_ERROR(AddMeasured(timeline, "the run's timeline", timeline));
  return timeline;
}

// What a device of this host is made of.
absl::StatusOr<std::string> HardwareOf(const PlacedDevice& device) {
  if (device.backend->RunsOnHost()) {
    ASSIGN_OR_RETURN(const Host host, ExamineHost());
    return host.hardware;
  }
  const absl::StatusOr<std::string> name = GpuName(device.spec.index);
  if (!absl::IsInvalidArgument(name.status())) return name;
  return absl::UnavailableError(name.status().message());
}

// The devices and what connects them.
absl::StatusOr<ExecutorSetup> SetupOf(const DeviceTopology& topology, const RunRequest& request) {
  ExecutorSetup setup;
  setup.hang_seconds = request.hang_seconds;
  if (request.ranks != nullptr) {
    if (request.ranks->size() != topology.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan has ", topology.size(), " devices and the run ",
                       request.ranks->size(), " processes; wanted one process for each device"));
    }
    ASSIGN_OR_RETURN(setup.devices,
                     DevicesOf(topology, request.backends, DeviceId(request.ranks->rank())));
    const DeviceId own(request.ranks->rank());
    ASSIGN_OR_RETURN(const std::string hardware, HardwareOf(setup.devices[own.index()]));
    RETURN_IF_ERROR(request.ranks->CheckHardware(topology.device(own).device_class, hardware));
    ASSIGN_OR_RETURN(const bool nccl,
                     request.ranks->FromRank0(IsForNccl(topology, request.backends)));
    setup.communicator = nccl ? "nccl" : request.ranks->communicator();
    setup.port = &request.ranks->port();
  } else if (request.virtual_devices > 0) {
    ASSIGN_OR_RETURN(auto cuda, MakeBackend("cuda"));
    setup.devices = VirtualDevices(std::move(cuda), request.virtual_devices);
    setup.communicator = CommunicatorBetween(setup.devices);
  } else {
    ASSIGN_OR_RETURN(setup.devices, DevicesOf(topology, request.backends));
    setup.communicator = CommunicatorBetween(setup.devices);
  }
  if (!request.communicator.empty()) setup.communicator = request.communicator;
  return setup;
}

// Lets the watchdog see an executor as long as it is there.
class WatchedExecutor {
 public:
  WatchedExecutor(Ranks* ranks, const Executor& executor) : ranks_(ranks) {
    if (ranks_ != nullptr) ranks_->Watch(&executor);
  }
  ~WatchedExecutor() {
    if (ranks_ != nullptr) ranks_->Watch(nullptr);
  }

 private:
  Ranks* const ranks_;
};

RunOutcome::Checkpoints EndOf(PeriodicCheckpoints& checkpoints) {
  checkpoints.Finish();
  return {.written = checkpoints.written(),
          .failed = checkpoints.failed(),
          .waited_ns = checkpoints.waited_ns(),
          .best = checkpoints.best()};
}

// Whether what the run will write can be written, by the rank that does.
absl::Status CheckOutputs(const RunRequest& request) {
  absl::Status status;
  if (request.ranks == nullptr || request.ranks->is_rank0()) {
    status = CheckWritable(request.save, "--save");
    status.Update(CheckWritable(request.timeline, "--timeline"));
  }
  return request.ranks == nullptr ? status : request.ranks->FromRank0(status);
}

}  // namespace

absl::StatusOr<RunOutcome> RunPlan(const LoadedPlan& loaded, const RunRequest& request,
                                   Stages* stages) {
  const Doing doing("running a plan for model", loaded.model.label.source);
  const Graph& graph = loaded.model.graph;
  const bool writes = request.ranks == nullptr || request.ranks->is_rank0();
  RETURN_IF_ERROR(CheckOutputs(request));
  const bool shares_gpu = request.virtual_devices > 0;
  ASSIGN_OR_RETURN(ExecutorSetup setup, SetupOf(loaded.plan.topology, request));
  setup.replay = !request.no_replay;
  const bool records_timeline = !request.timeline.empty() || stages != nullptr;
  const std::vector<Precision> precisions = PrecisionsOn(setup.devices, request.precision);
  const bool nondeterministic = request.nondeterministic;
  ASSIGN_OR_RETURN(PlannedStep step,
                   shares_gpu ? BuildDenseStep(graph, loaded.plan, precisions, nondeterministic)
                              : BuildPlannedStep(graph, loaded.plan, precisions, nondeterministic));
  RETURN_IF_ERROR(CheckHostMemory(graph, step, setup));
  ASSIGN_OR_RETURN(
      const KeptAlgorithms::WithExecutor opened,
      KeptAlgorithms::Open(graph, std::move(step), setup, request.profile, request.ranks));
  Executor* const executor = opened.executor.get();
  RETURN_IF_ERROR(EndProgram(stages, graph, loaded.plan.strategy, executor->program()));
  ASSIGN_OR_RETURN(RunStart start, StartRun(graph, request));
  const uint64_t seed = start.state.seed;
  ASSIGN_OR_RETURN(TrainingData data,
                   OpenData(request, request.data, DataSplit::kTrain, seed, graph));
  data.loader.workers = ReadersOf(request, setup);
  EvaluationData evaluation;
  std::unique_ptr<ModelEvaluation> evaluator;
  if (!request.eval_data.empty()) {
    PartitionOptions options = PartitionOptionsOf(loaded.plan.topology, loaded.plan.choices);
    options.precision_of_device = precisions;
    options.nondeterministic_of_device.assign(precisions.size(), nondeterministic);
    ASSIGN_OR_RETURN(evaluator, ModelEvaluation::Create(loaded.model.imported.graph, graph,
                                                        loaded.plan.strategy, options, setup));
    if (request.ranks == nullptr) RETURN_IF_ERROR(opened.algorithms->SaveOrSay().status());
    ASSIGN_OR_RETURN(evaluation.data,
                     OpenData(request, request.eval_data, DataSplit::kEval, seed, graph));
    evaluation.data.loader.workers = data.loader.workers;
    evaluation.evaluation = evaluator.get();
    evaluator->OnBatch(request.on_evaluated);
  }
  TrainerOptions options = OptionsOf(request, records_timeline);
  options.checkpoints = start.checkpoints.get();
  ASSIGN_OR_RETURN(const auto trainer,
                   Trainer::Create(graph, *executor,
                                   {std::move(start.state), std::move(data), std::move(options),
                                    std::move(evaluation)}));
  const WatchedExecutor watched(request.ranks, *executor);
  RunOutcome outcome;
  if (!opened.note.empty()) outcome.notes.push_back(opened.note);
  outcome.status = trainer->Run();
  if (start.checkpoints != nullptr) outcome.checkpoints = EndOf(*start.checkpoints);
  RETURN_IF_ERROR(SaveEnd(graph, request, *trainer, outcome));
  // What follows is done by all ranks or by none.
  const bool good = outcome.status.ok() || IsInterrupted(outcome.status);
  if (request.ranks != nullptr && !good) return outcome;
  outcome.metrics = trainer->metrics();
  outcome.evaluation = trainer->evaluation();
  if (executor->Stages()) outcome.replay = executor->CanReplay();
  if (records_timeline && outcome.metrics.steps() > 0) {
    ASSIGN_OR_RETURN(const Timeline timeline,
                     TimelineOfRun(loaded, *executor, *trainer, request.ranks));
    if (!request.timeline.empty() && writes) {
      RETURN_IF_ERROR(WriteFileAtomically(request.timeline, TimelineToJson(timeline)));
      outcome.written.push_back(request.timeline);
    }
    // There is nothing after this stage to stop before.
    const absl::Status ended = EndMeasuredTimeline(stages, timeline);
    if (!ended.ok() && !StoppedAsAsked(ended)) return ended;
  }
  return outcome;
}

}  // namespace partita

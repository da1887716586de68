#include "tests/gpu/one_device.h"

#include <algorithm>
#include <thread>

#include "graph/parallel/strategy.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/training_state.h"
#include "tests/bench/step_turns.h"

namespace partita {
namespace {

constexpr size_t kLosses = 5;  // that are kept
constexpr uint64_t kSeed = 1;

struct RandomBatch {
  std::vector<float> x;
  std::vector<int32_t> y;
};

RandomBatch BatchFor(const Graph& graph) {
  RandomBatch batch;
  batch.x.resize(static_cast<size_t>(Volume(graph.WholeType(TensorRole::kSamples).shape)));
  for (size_t i = 0; i < batch.x.size(); ++i) {
    batch.x[i] = 2 * UnitFloat(PhiloxWord(kSeed, 1, i)) - 1;
  }
  batch.y.resize(static_cast<size_t>(graph.batch()));
  const auto classes = static_cast<uint32_t>(graph.WholeType(TensorRole::kLogits).shape.back());
  for (size_t i = 0; i < batch.y.size(); ++i) {
    batch.y[i] = static_cast<int32_t>(PhiloxWord(kSeed, 2, i) % classes);
  }
  return batch;
}

// Runs steps from initial weights; calls `each` with the number and the result of every step.
absl::Status Train(const Graph& graph, Executor& executor, int steps,
                   const std::function<void(int, const StepResult&)>& each) {
  const RandomBatch batch = BatchFor(graph);
  ASSIGN_OR_RETURN(const TrainingState state, InitialState(graph, kSeed));
  RETURN_IF_ERROR(WriteValues(graph, state, executor));
  RepeatedBatch repeated(batch.x, batch.y, executor);
  StepArguments arguments;
  arguments.learning_rate = 1e-3;
  for (int step = 0; step < steps; ++step) {
    arguments.step = step;
    ASSIGN_OR_RETURN(const StepResult result, repeated.Step(arguments));
    each(step, result);
  }
  return absl::OkStatus();
}

// A shorter run whose last step counts.
absl::Status MeasureTasks(const Graph& graph, const TimingRequest& request, StepTimes& times) {
  OneDeviceRequest recording = request.device;
  recording.record_timeline = true;
  ASSIGN_OR_RETURN(const auto executor, OpenOneDevice(graph, recording));
  std::vector<MeasuredInstruction> timeline;
  RETURN_IF_ERROR(
      Train(graph, *executor, std::max(1, request.warm_up), [&](int, const StepResult& result) {
        times.share = KernelShareOf(result.timeline, result.wall_ns);
        timeline = result.timeline;
      }));
  std::sort(timeline.begin(), timeline.end(),
            [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  for (const MeasuredInstruction& one : timeline) {
    times.tasks.push_back({TaskName(graph, executor->program().tasks.task(one.task)),
                           static_cast<double>(one.end_ns - one.start_ns) / 1e3});
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<PrecisionRow> PrecisionsOf(const SuiteOptions& options) {
  std::vector<PrecisionRow> rows;
  for (const PrecisionRow& row : kPrecisions) {
    const auto& names = options.precisions;
    const bool has = options.backend == "cuda" || row.precision == Precision::kFloat32;
    const bool named = std::find(names.begin(), names.end(), row.name) != names.end();
    if (has && (names.empty() || named)) rows.push_back(row);
  }
  return rows;
}

absl::StatusOr<std::unique_ptr<Executor>> OpenOneDevice(const Graph& graph,
                                                        const OneDeviceRequest& request) {
  ASSIGN_OR_RETURN(const auto backend, MakeBackend(request.backend));
  DeviceSpec spec;
  spec.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  spec.algorithms = request.algorithms;
  ExecutorSetup setup;
  setup.devices = {{backend, spec}};
  setup.communicator = CommunicatorBetween(setup.devices);
  setup.record_timeline = request.record_timeline;
  setup.replay = request.replay;
  PartitionOptions partition;
  partition.native_formats = request.backend == "cpu";
  partition.precision_of_device = PrecisionsOn(setup.devices, request.precision);
  ASSIGN_OR_RETURN(PlannedStep step,
                   CanonicalStep(graph, SingleDevice(graph, DeviceId(0)), partition));
  return OpenExecutor(graph, std::move(step), setup);
}

absl::StatusOr<StepTimes> TimeSteps(const Graph& graph, const TimingRequest& wanted) {
  AlgorithmStore algorithms;
  TimingRequest request = wanted;
  if (request.device.algorithms == nullptr) request.device.algorithms = &algorithms;
  StepTimes times;
  {
    ASSIGN_OR_RETURN(const auto executor, OpenOneDevice(graph, request.device));
    const auto loss = OutputIndex(executor->program().tasks, graph.only(TensorRole::kLoss));
    if (!loss.has_value()) return absl::InvalidArgumentError("the model has no loss");
    times.allocated_bytes = executor->AllocatedBytes(DeviceId(0)).value();
    std::vector<double> ms;
    RETURN_IF_ERROR(Train(graph, *executor, request.warm_up + request.steps,
                          [&](int step, const StepResult& result) {
                            if (times.losses.size() < kLosses) {
                              times.losses.push_back(result.outputs[*loss]);
                            }
                            if (step < request.warm_up) return;
                            times.replayed += result.replayed ? 1 : 0;
                            ms.push_back(static_cast<double>(result.wall_ns) / 1e6);
                          }));
    times.not_replayed = std::string(executor->CanReplay().message());
    std::sort(ms.begin(), ms.end());
    if (ms.empty()) return absl::InvalidArgumentError("no step is timed");
    times.median_ms = ms[ms.size() / 2];
    times.least_ms = ms[0];
  }
  if (request.device.replay) {
    RETURN_IF_ERROR(MeasureTasks(graph, request, times));
  }
  times.algorithms = request.device.algorithms->Added();
  return times;
}

}  // namespace partita

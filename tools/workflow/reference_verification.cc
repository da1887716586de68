#include "tools/workflow/reference_verification.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "planner/space/search_space.h"
#include "runtime/backend/backends.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/serial/serial_reference.h"
#include "runtime/serial/serial_trainer.h"
#include "runtime/train/reference/reference_folder.h"
#include "runtime/train/reference/reference_model.h"
#include "runtime/train/reference/reference_run.h"
#include "runtime/train/reference_training.h"

namespace partita {
namespace {

// What rounding may change in a kernel's result, of its largest element: algorithms that transform
// their operands round several times.
constexpr float kRounding = 1e-6f;

// Adds one run to the result.
void Judge(const std::string& run, const ReferenceComparison& comparison, ReferenceResult& result) {
  result.max_abs_error = std::max(result.max_abs_error, comparison.max_abs_error);
  if (comparison.worst_share > result.worst_share) {
    result.worst_share = comparison.worst_share;
    result.worst = comparison.worst;
  }
  if (comparison.equal) return;
  result.equal = false;
  result.first_difference = absl::StrCat(run, ": ", comparison.first_difference);
}

// Adds up to kRounding of the largest to each of them.
void Round(std::vector<float>& values, std::mt19937_64& random) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  std::uniform_real_distribution<float> rounding(-kRounding * most, kRounding * most);
  for (float& value : values) value += rounding(random);
}

// Trains serially with initial weights and inputs (unless these are numbers of rows) that are off:
// where kernels round depends on where an element is, so that it breaks ties.
absl::StatusOr<RunValues> TrainRounded(const Graph& graph, const ReferenceFolder& reference,
                                       const std::atomic<bool>* stop, std::mt19937_64& random) {
  SerialTrainer trainer(graph);
  trainer.StopWhen(stop);
  for (const Weight& weight : graph.weights()) {
    const std::vector<double> exact = trainer.Get(weight.tensor);
    std::vector<float> rounded(exact.begin(), exact.end());
    Round(rounded, random);
    RETURN_IF_ERROR(trainer.Set(weight.tensor, rounded));
  }
  ReferenceFolder rounded = reference;
  if (graph.WholeType(TensorRole::kSamples).dtype == DType::kFloat32) {
    for (std::vector<float>& x : rounded.x) Round(x, random);
  }
  return TrainOnReference(
      graph, rounded,
      {.step = [&](auto x, auto labels,
                   const StepArguments& arguments) { return trainer.Step(x, labels, arguments); },
       .value = [&](TensorId id) { return trainer.Get(id); }});
}

// Keeps how far each tensor is off after runs from weights that are rounded otherwise. Returns how
// many are beyond the folder's tolerance by that alone.
absl::StatusOr<int> FindSensitivity(const Graph& graph, const ReferenceRequest& request,
                                    ReferenceFolder& reference) {
  std::mt19937_64 random(request.seed);
  std::map<std::string, double> off;
  std::set<std::string> sensitive;
  for (int run = 0; run < request.rounding_runs; ++run) {
    ASSIGN_OR_RETURN(const RunValues values, TrainRounded(graph, reference, request.stop, random));
    for (const auto& [name, want] : reference.expected) {
      const auto got = values.find(name);
      if (got == values.end() || got->second.size() != want.size()) continue;
      for (size_t i = 0; i < want.size(); ++i) {
        off[name] = std::max(off[name], std::abs(got->second[i] - want[i]));
      }
    }
    for (const std::string& name : CompareWithReference(reference, values).different) {
      sensitive.insert(name);
    }
  }
  reference.sensitivity = std::move(off);
  return static_cast<int>(sensitive.size());
}

}  // namespace

absl::StatusOr<ReferenceResult> VerifyAgainstReference(const ReferenceRequest& request) {
  ASSIGN_OR_RETURN(ReferenceFolder reference, LoadReferenceFolder(request.folder));
  ASSIGN_OR_RETURN(const Graph model, LoadReferenceModel(reference));
  ASSIGN_OR_RETURN(const Graph graph, BuildReferenceGraph(model, reference));
  ReferenceResult result;
  const auto serial = TrainSeriallyOnReference(model, reference, request.stop);
  if (IsInterrupted(serial.status())) {
    result.interrupted = true;
    return result;
  }
  RETURN_IF_ERROR(serial.status());
  Judge("serial run", CompareWithReference(reference, *serial), result);
  const auto sensitive = FindSensitivity(graph, request, reference);
  if (IsInterrupted(sensitive.status())) {
    result.interrupted = true;
    return result;
  }
  RETURN_IF_ERROR(sensitive.status());
  result.sensitive = *sensitive;
  ASSIGN_OR_RETURN(const auto backend, MakeBackend(request.backend));
  ExecutorSetup setup;
  setup.devices = VirtualDevices(backend, request.devices);
  // Any algorithm has to be right: to measure the kernels of every plan would take longer.
  for (PlacedDevice& device : setup.devices) device.spec.measure_algorithms = false;
  setup.communicator = CommunicatorBetween(setup.devices);
  setup.hang_seconds = 600;
  setup.stop = request.stop;
  PartitionOptions options;
  options.devices = request.devices;
  const SearchSpace space(graph, request.devices);
  std::mt19937_64 random(request.seed);
  for (int plan = 0; plan < request.random_plans && result.equal; ++plan) {
    if (IsSet(request.stop)) {
      result.interrupted = true;
      break;
    }
    if (request.progress) request.progress(plan, request.random_plans);
    const std::string run = absl::StrCat("random plan ", plan, " of seed ", request.seed, " on ",
                                         request.devices, " devices");
    const auto got =
        TrainSplitOnReference(graph, reference, space.RandomStrategy(random), options, setup);
    if (IsInterrupted(got.status())) {
      result.interrupted = true;
      break;
    }
    ++result.plans;
    if (absl::IsDataLoss(got.status())) {
      result.equal = false;
      result.first_difference = absl::StrCat(run, ": ", got.status().message());
      break;
    }
    RETURN_IF_ERROR(got.status());
    Judge(run, CompareWithReference(reference, *got), result);
  }
  return result;
}

}  // namespace partita

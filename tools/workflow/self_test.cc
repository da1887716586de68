#include "tools/workflow/self_test.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cost_model/machines.h"
#include "graph/support/clock.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/support/temporary.h"
#include "planner/expert/expert_strategies.h"
#include "runtime/backend/backends.h"
#include "runtime/train/checkpoint.h"
#include "tools/workflow/running.h"
#include "tools/workflow/verification.h"

namespace partita {
namespace {

constexpr int kVirtualDevices = 4;
constexpr Bytes kVirtualMemory = Bytes(int64_t{1} << 30);
constexpr int64_t kSteps = 6;  // of the run that is resumed halfway

// Models that have every kind of operator between them, in sizes that take a second.
std::vector<ModelRequest> SmallModels() {
  return {{.model = "lenet", .batch = 8},
          {.model = "resnet_tiny", .batch = 4},
          {.model = "gpt_tiny", .batch = 4},
          {.model = "nmt_tiny", .batch = 4},
          {.model = "alexnet_tiny", .batch = 4}};
}

// The text of a check that passed, or the error of one that did not; FailedPrecondition where there
// is nothing to check.
using Check = std::function<absl::StatusOr<std::string>()>;
struct NamedCheck {
  std::string name;
  Check run;
};

absl::StatusOr<std::string> Proven(const TrainingModel& model, const Plan& plan,
                                   const VerificationRequest& request) {
  ASSIGN_OR_RETURN(const VerificationResult result, VerifyEqual(model.graph, plan, request));
  if (result.interrupted) return InterruptedError("interrupted");
  if (!result.equal) return absl::DataLossError(result.first_difference);
  return absl::StrFormat("%d steps equal%s, largest difference %.1e", result.steps_compared,
                         result.ring_checked ? " (half of them bit for bit in the ring)" : "",
                         result.max_abs_error);
}

Plan PlanFor(const TrainingModel& model, DeviceTopology topology, Strategy strategy) {
  Plan plan;
  plan.model = model.label;
  plan.topology = std::move(topology);
  plan.strategy = std::move(strategy);
  return plan;
}

// Steps of a model on one device of a backend against the reference kernels.
absl::StatusOr<std::string> CheckKernels(const ModelRequest& request, const std::string& backend,
                                         const std::atomic<bool>* stop) {
  ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel(request));
  const DeviceTopology topology = VirtualCpuDevices(1, kVirtualMemory);
  ASSIGN_OR_RETURN(Strategy strategy, SingleDeviceExpert(model.graph, topology));
  VerificationRequest verification;
  verification.quick = true;
  verification.backends = {{"", backend}};
  verification.stop = stop;
  return Proven(model, PlanFor(model, topology, std::move(strategy)), verification);
}

absl::StatusOr<std::string> CheckExpert(const ModelRequest& request, const ExpertRow& expert,
                                        const std::atomic<bool>* stop) {
  ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel(request));
  const DeviceTopology topology = VirtualCpuDevices(kVirtualDevices, kVirtualMemory);
  ASSIGN_OR_RETURN(Strategy strategy, expert.make(model.graph, topology));
  VerificationRequest verification;
  verification.stop = stop;
  return Proven(model, PlanFor(model, topology, std::move(strategy)), verification);
}

// A run of LeNet on two devices of this machine's cores.
absl::Status Train(const LoadedPlan& plan, RunRequest request, int64_t steps) {
  request.steps = steps;
  request.data = "synthetic_digits";
  ASSIGN_OR_RETURN(const RunOutcome outcome, RunPlan(plan, request));
  return outcome.status;
}

absl::StatusOr<std::string> CheckResume(const std::atomic<bool>* stop) {
  ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Create());
  ASSIGN_OR_RETURN(TrainingModel model, LoadTrainingModel({.model = "lenet", .batch = 16}));
  ASSIGN_OR_RETURN(const Machine machine, FindMachine("local", 2, true));
  ASSIGN_OR_RETURN(Strategy strategy, DataParallel(model.graph, machine.topology));
  const Plan plan = PlanFor(model, machine.topology, std::move(strategy));
  const LoadedPlan loaded{plan, std::move(model)};
  const std::string whole = folder.path() + "/whole.safetensors";
  const std::string half = folder.path() + "/half.safetensors";
  const std::string resumed = folder.path() + "/resumed.safetensors";
  RunRequest request;
  request.stop = stop;
  request.profile = folder.path() + "/profile.db";
  request.save = whole;
  RETURN_IF_ERROR(Train(loaded, request, kSteps));
  request.save = half;
  RETURN_IF_ERROR(Train(loaded, request, kSteps / 2));
  request.save = resumed;
  request.resume = half;
  RETURN_IF_ERROR(Train(loaded, request, kSteps));
  const Graph& graph = loaded.model.graph;
  ASSIGN_OR_RETURN(const TrainingState wanted, LoadCheckpoint(whole, graph));
  ASSIGN_OR_RETURN(const TrainingState found, LoadCheckpoint(resumed, graph));
  if (found == wanted) {
    return absl::StrCat(kSteps, " steps, saved after ", kSteps / 2, ": equal bit for bit");
  }
  return absl::DataLossError(absl::StrCat("after ", kSteps, " steps the run that was saved after ",
                                          kSteps / 2, " and resumed has other weights"));
}

// All checks, of the kinds in turn.
std::vector<NamedCheck> Checks(const std::atomic<bool>* stop) {
  std::vector<NamedCheck> kernels, rings;
  for (const ModelRequest& model : SmallModels()) {
    for (const BackendRow& row : Backends()) {
      const std::string backend(row.name);
      if (backend == "reference" || !MakeBackend(backend).ok()) continue;
      kernels.push_back({absl::StrCat("kernels of ", backend, ": ", model.model),
                         [=] { return CheckKernels(model, backend, stop); }});
    }
  }
  for (const ExpertRow& expert : ExpertStrategies()) {
    for (const ModelRequest& model : SmallModels()) {
      rings.push_back({absl::StrCat("ring: ", model.model, " by ", expert.name),
                       [=] { return CheckExpert(model, expert, stop); }});
    }
  }
  std::vector<NamedCheck> checks = {{"save and resume", [=] { return CheckResume(stop); }}};
  for (size_t k = 0; k < std::max(kernels.size(), rings.size()); ++k) {
    if (k < kernels.size()) checks.push_back(std::move(kernels[k]));
    if (k < rings.size()) checks.push_back(std::move(rings[k]));
  }
  return checks;
}

}  // namespace

absl::StatusOr<std::vector<SelfTestCheck>> RunSelfTest(const SelfTestRequest& request) {
  using Verdict = SelfTestCheck::Verdict;
  const int64_t begin = SteadyNow();
  std::vector<SelfTestCheck> results;
  const std::vector<NamedCheck> checks = Checks(request.stop);
  for (const NamedCheck& check : checks) {
    SelfTestCheck result{.name = check.name};
    if (IsSet(request.stop)) {
      result.detail = "interrupted";
    } else if (static_cast<double>(SteadyNow() - begin) / 1e9 > request.seconds) {
      result.detail = absl::StrFormat("the %g s were up", request.seconds);
    } else {
      if (request.progress) {
        request.progress(check.name, static_cast<int>(results.size()),
                         static_cast<int>(checks.size()));
      }
      const auto passed = check.run();
      if (absl::IsFailedPrecondition(passed.status())) continue;
      const bool interrupted = IsInterrupted(passed.status());
      result.verdict = passed.ok()   ? Verdict::kPassed
                       : interrupted ? Verdict::kSkipped
                                     : Verdict::kFailed;
      result.detail = passed.ok()   ? *passed
                      : interrupted ? "interrupted"
                                    : std::string(passed.status().message());
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace partita

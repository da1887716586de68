#include "tests/gpu/plans_on_devices.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "cost_model/machines.h"
#include "graph/support/status_macros.h"
#include "planner/expert/expert_strategies.h"
#include "runtime/backend/algorithm_store.h"
#include "tests/testing/random_strategy.h"
#include "tools/workflow/training_model.h"
#include "tools/workflow/verification.h"

namespace partita {
namespace {

constexpr const char* kModels[] = {"lenet", "alexnet_s_tiny", "resnet_tiny"};
constexpr int64_t kBatch = 8;
constexpr const char* kMachine = "p100-4x4";  // whose topology the experts are given
constexpr size_t kMostFailures = 20;          // behind which nothing more is tried

struct ModelOnDevices {
  std::string name;
  const Graph& graph;
  int devices;
};

// Plans of one model on one number of devices.
class PlansOnVirtualDevices {
 public:
  PlansOnVirtualDevices(ModelOnDevices model, const PlanRuns& runs, const SuiteOptions& options,
                        SectionFindings& findings)
      : graph_(model.graph),
        model_(std::move(model.name)),
        runs_(runs),
        options_(options),
        devices_(model.devices),
        findings_(findings) {}

  absl::Status CheckExperts() {
    ASSIGN_OR_RETURN(const Machine machine, FindMachine(kMachine, devices_));
    PartitionOptions partition;
    partition.devices = devices_;
    for (const ExpertRow& expert : ExpertStrategies()) {
      const auto strategy = expert.make(graph_, machine.topology);
      if (absl::IsFailedPrecondition(strategy.status())) continue;
      RETURN_IF_ERROR(strategy.status());
      RETURN_IF_ERROR(Check(expert.name, *strategy, partition));
    }
    return absl::OkStatus();
  }

  absl::Status CheckRandomPlans(int plans) {
    std::mt19937_64 random(2026);
    for (int plan = 0; plan < plans; ++plan) {
      PartitionOptions partition = RandomPartitionOptions(random);
      partition.devices = devices_;
      partition.node_of_device.clear();
      RETURN_IF_ERROR(Check(absl::StrCat("random plan ", plan),
                            RandomStrategy(graph_, devices_, random), partition));
    }
    return absl::OkStatus();
  }

  Json Report() const {
    return {{"model", model_},
            {"devices", devices_},
            {"plans", plans_},
            {"equal", equal_},
            {"max_abs_error", max_abs_error_}};
  }

 private:
  absl::Status Check(const std::string& name, const Strategy& strategy,
                     const PartitionOptions& partition) {
    const std::string what = absl::StrCat(model_, " on ", devices_, " devices, ", name);
    findings_.details["running"] = what;  // what a hang or a crash was in
    options_.so_far(findings_);
    VerificationRequest request;
    request.quick = true;
    const absl::StatusOr<VerificationResult> result =
        VerifySteps({graph_, strategy, devices_,
                     [&](const Graph& form) { return CanonicalStep(form, strategy, partition); },
                     runs_.devices(devices_), runs_.communicator, runs_.nccl_library},
                    request);
    ++plans_;
    const bool equal = result.ok() && result->equal;
    equal_ += equal ? 1 : 0;
    if (result.ok()) max_abs_error_ = std::max(max_abs_error_, result->max_abs_error);
    if (equal) return absl::OkStatus();
    findings_.failures.push_back(absl::StrCat(
        what, ": ", result.ok() ? result->first_difference : result.status().ToString()));
    if (findings_.failures.size() < kMostFailures) return absl::OkStatus();
    return absl::InternalError("that many failures are enough");
  }

  const Graph& graph_;
  const std::string model_;
  const PlanRuns& runs_;
  const SuiteOptions& options_;
  const int devices_;
  SectionFindings& findings_;
  int plans_ = 0, equal_ = 0;
  double max_abs_error_ = 0;
};

}  // namespace

absl::StatusOr<SectionFindings> CheckPlans(const SuiteOptions& options, const PlanRuns& given) {
  // Equal whichever algorithms are taken: random plans have many kernels, and to measure each would
  // take longer than all else here.
  AlgorithmStore algorithms;
  PlanRuns runs = given;
  runs.devices = [&](int count) {
    std::vector<PlacedDevice> devices = given.devices(count);
    for (PlacedDevice& device : devices) {
      device.spec.algorithms = &algorithms;
      device.spec.measure_algorithms = false;
    }
    return devices;
  };
  SectionFindings findings;
  findings.details = {
      {"communicator",
       runs.communicator.empty() ? CommunicatorBetween(runs.devices(2)) : runs.communicator},
      {"experts", Json::array()},
      {"random", Json::array()}};
  for (const char* name : kModels) {
    ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel({name, kBatch}));
    for (const int count : options.devices) {
      PlansOnVirtualDevices experts({name, model.graph, count}, runs, options, findings);
      RETURN_IF_ERROR(experts.CheckExperts());
      findings.details["experts"].push_back(experts.Report());
      if (name != kModels[0]) continue;
      PlansOnVirtualDevices random({name, model.graph, count}, runs, options, findings);
      RETURN_IF_ERROR(random.CheckRandomPlans(runs.random_plans));
      findings.details["random"].push_back(random.Report());
    }
  }
  findings.details.erase("running");
  return findings;
}

}  // namespace partita

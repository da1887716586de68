#include "tools/workflow/reference_verification.h"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "planner/space/search_space.h"
#include "runtime/backend/backends.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/serial/serial_reference.h"
#include "runtime/train/reference/reference_folder.h"
#include "runtime/train/reference/reference_model.h"
#include "runtime/train/reference/reference_run.h"
#include "runtime/train/reference_training.h"

namespace partita {
namespace {

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

}  // namespace

absl::StatusOr<ReferenceResult> VerifyAgainstReference(const ReferenceRequest& request) {
  ASSIGN_OR_RETURN(const ReferenceFolder reference, LoadReferenceFolder(request.folder));
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
  std::optional<ByTensor> rounding;
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
    ReferenceComparison comparison = CompareWithReference(reference, *got);
    if (!comparison.equal && request.noisy != nullptr) {
      if (!rounding.has_value()) {
        ASSIGN_OR_RETURN(rounding, RoundingOfReference(graph, reference, request.noisy));
      }
      comparison = CompareWithReference(reference, *got, *rounding);
      result.rounded += comparison.equal ? 1 : 0;
    }
    Judge(run, comparison, result);
  }
  return result;
}

}  // namespace partita

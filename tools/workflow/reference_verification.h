#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/backend/backend.h"
#include "tools/workflow/option_checks.h"

namespace partita {

struct ReferenceRequest {
  std::string folder;     // folder, see LoadReferenceFolder
  int random_plans = 20;  // number of random plans, in addition to the serial run
  int devices = 2;
  // Backend that runs the plans, all devices on this host; on one GPU if it is cuda.
  std::string backend = "reference";
  // A backend: where a run is beyond a tolerance, what RoundingOfReference finds with it is allowed, too.
  // Null: it is not.
  std::shared_ptr<const Backend> noisy;
  uint64_t seed = 1;  // seed of the plans
  // Stop flag: when it becomes true, the result covers the runs until then. Null: never.
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int done, int wanted)> progress;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(Option{.name = "reference",
                 .help = "instead of a plan: a training run of another framework to repeat "
                         "serially and under random plans"},
          self.folder);
    visit(
        Option{.name = "random_plans", .help = "how many", .check = WholeNumber(0, 1'000'000'000)},
        self.random_plans);
    visit(
        Option{
            .name = "devices", .help = "devices of the random plans", .check = WholeNumber(1, 64)},
        self.devices);
  }
};

struct ReferenceResult {
  bool equal = true;  // all that was compared, within the tolerances of the folder
  int plans = 0;      // random plans that were trained; the serial run is not counted
  double max_abs_error = 0;
  std::string worst;             // the tensor that used most of its tolerance
  double worst_share = 0;        // share of the tolerance
  int rounded = 0;               // runs that are equal only by what rounding changes
  std::string first_difference;  // run, tensor and element of the first difference; empty if equal
  bool interrupted = false;      // true: stopped before all were compared
};

// Trains a model from another framework's weights on its batches, serially and then under random
// plans on virtual devices of the backend, and compares losses, logits, gradients and
// final weights with what that framework got. Ends at the first run that differs. Errors as
// LoadReferenceFolder and ImportOnnx.
absl::StatusOr<ReferenceResult> VerifyAgainstReference(const ReferenceRequest& request);

}  // namespace partita

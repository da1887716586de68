#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace partita {

struct ReferenceRequest {
  std::string folder;     // as LoadReferenceFolder reads it
  int random_plans = 20;  // beside the serial run
  int devices = 2;
  // That runs the plans, all devices on this host; on one GPU where it is cuda.
  std::string backend = "reference";
  uint64_t seed = 1;  // of the plans
  // When it becomes true, the result is what was found until then. Null: never.
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int done, int wanted)> progress;
};

struct ReferenceResult {
  bool equal = true;  // all that was compared, within the tolerances of the folder
  int plans = 0;      // random plans that were trained; the serial run is not counted
  double max_abs_error = 0;
  std::string worst;             // the tensor that used most of its tolerance
  double worst_share = 0;        // how much of it
  std::string first_difference;  // which run, tensor and element; empty if equal
  bool interrupted = false;      // before all were compared
};

// Trains a model from another framework's weights on its batches, serially and then under random
// plans on virtual devices of the backend, and compares losses, logits, gradients and
// final weights with what that framework got. Ends at the first run that differs. Errors as
// LoadReferenceFolder and ImportOnnx.
absl::StatusOr<ReferenceResult> VerifyAgainstReference(const ReferenceRequest& request);

}  // namespace partita

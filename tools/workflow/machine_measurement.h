#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cost_model/machine.h"

namespace partita {

// This host as a machine whose figures were measured, with all devices busy. `method`: lines that
// say of each figure how it was found, for people.
struct MeasuredMachine {
  Machine machine;
  std::string method;
};

// Takes some seconds. Errors: those of FindMachine("local") and of the devices.
absl::StatusOr<MeasuredMachine> MeasureMachine(std::optional<int> devices);

// The text form with `method` as its comment.
std::string MeasuredMachineText(const MeasuredMachine& measured);

}  // namespace partita

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cost_model/cost_model.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/machine.h"
#include "cost_model/measured_cost.h"
#include "graph/parallel/plan.h"
#include "graph/task/buffer_assignment.h"
#include "runtime/backend/backend.h"

namespace partita {

struct MachineRequest {
  std::string machine = "local";  // a name or a file
  std::optional<int> devices;
  std::string profile = "partita.profile.db";
  bool foreign_profile = false;  // use another machine's records
};

// A machine with what its tasks cost.
struct PricedMachine {
  std::shared_ptr<const Machine> machine;
  std::unique_ptr<CostModel> model;
  // Whether the machine is this host: only then can it be profiled and run on.
  bool is_local = false;
  size_t records = 0;  // measured tasks known
  DeviceProfiles profiles;
};

// The backend that runs plans on this host: "cpu" if it is built in, else "reference".
std::string LocalBackendName();

// What a task graph for the machine should look like.
PartitionChoices DefaultChoices(const PricedMachine& priced);

// What kernels and buffers take on it beyond their elements, as far as the profile knows.
MemorySizes SizesOn(const PricedMachine& priced);

// Finds the machine and prices it with the records of the profile, if there is one.
absl::StatusOr<PricedMachine> PriceMachine(const MachineRequest& request);

}  // namespace partita

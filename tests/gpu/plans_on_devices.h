#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/executor/executor_setup.h"
#include "tests/gpu/suite.h"

namespace partita {

// Devices that plans run on.
struct PlanRuns {
  std::function<std::vector<PlacedDevice>(int count)> devices;
  int random_plans = 0;           // on each number of devices
  std::string communicator = "";  // as StepsToVerify has them
  std::string nccl_library = "libnccl.so.2";
};

// Every expert's strategy of each of some models, and random plans of the first, on each number of
// devices that the options name, against the serial model.
absl::StatusOr<SectionFindings> CheckPlans(const SuiteOptions& options, const PlanRuns& runs);

}  // namespace partita

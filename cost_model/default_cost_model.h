#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cost_model/cost_model.h"
#include "cost_model/machine.h"
#include "cost_model/measured_cost.h"
#include "cost_model/profile_db.h"

namespace partita {

// The standard stack: measured where it was measured, else interpolated, else roofline; collectives
// and transfers over the links. Knows every task; remembers answers. Without profiles it is all
// roofline and links.
// `uncontended`: what was measured while the other devices were idle.
std::unique_ptr<CostModel> MakeDefaultCostModel(std::shared_ptr<const Machine> machine,
                                                DeviceProfiles profiles = {},
                                                DeviceProfiles uncontended = {});

// The same with SyntheticCost in place of measurements.
std::unique_ptr<CostModel> MakeSyntheticCostModel(std::shared_ptr<const Machine> machine);

// Profile of each device of the machine, measured through `backend`, from the database. Null where
// the machine cannot be measured on or nothing is known. `uncontended`: the records of idle
// neighbours instead (UncontendedFingerprint). Errors as ProfileDb::Load.
struct ProfileRequest {
  // Backend through which the records of each device were measured.
  std::function<std::string(const Device&)> backend;
  bool allow_foreign = false;
  bool uncontended = false;
};
absl::StatusOr<DeviceProfiles> LoadProfiles(const ProfileDb& db, const Machine& machine,
                                            const ProfileRequest& request);

}  // namespace partita

#pragma once

#include <memory>

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
std::unique_ptr<CostModel> MakeDefaultCostModel(std::shared_ptr<const Machine> machine,
                                                DeviceProfiles profiles = {});

// The same with SyntheticCost in place of measurements.
std::unique_ptr<CostModel> MakeSyntheticCostModel(std::shared_ptr<const Machine> machine);

// What the database holds about each device of the machine, measured through `backend`. Null where
// the machine cannot be measured on or nothing is known. Errors as ProfileDb::Load.
absl::StatusOr<DeviceProfiles> LoadProfiles(const ProfileDb& db, const Machine& machine,
                                            absl::string_view backend, bool allow_foreign = false);

}  // namespace partita

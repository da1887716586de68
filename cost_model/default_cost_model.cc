#include "cost_model/default_cost_model.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cost_model/combinators.h"
#include "cost_model/link_cost.h"
#include "cost_model/roofline_cost.h"
#include "cost_model/synthetic.h"
#include "graph/support/status_macros.h"

namespace partita {

std::unique_ptr<CostModel> MakeDefaultCostModel(std::shared_ptr<const Machine> machine,
                                                DeviceProfiles profiles) {
  profiles.resize(machine->topology.size());
  std::vector<DeviceId> equal = EqualDevices(*machine, profiles);
  std::vector<std::unique_ptr<CostModel>> models;
  models.push_back(std::make_unique<MeasuredCost>(machine, profiles));
  models.push_back(std::make_unique<InterpolatedCost>(machine, std::move(profiles)));
  models.push_back(std::make_unique<RooflineCost>(machine));
  models.push_back(std::make_unique<LinkCost>(machine));
  return std::make_unique<Cached>(std::make_unique<FirstMatch>(std::move(models)),
                                  std::move(equal));
}

std::unique_ptr<CostModel> MakeSyntheticCostModel(std::shared_ptr<const Machine> machine) {
  std::vector<std::unique_ptr<CostModel>> models;
  models.push_back(std::make_unique<SyntheticCost>(machine));
  models.push_back(std::make_unique<LinkCost>(machine));
  const DeviceProfiles none(machine->topology.size());
  return std::make_unique<Cached>(std::make_unique<FirstMatch>(std::move(models)),
                                  EqualDevices(*machine, none));
}

absl::StatusOr<DeviceProfiles> LoadProfiles(const ProfileDb& db, const Machine& machine,
                                            absl::string_view backend, bool allow_foreign) {
  DeviceProfiles profiles;
  absl::flat_hash_map<DeviceFingerprint, std::shared_ptr<const Profile>> loaded;
  for (int d = 0; d < machine.topology.size(); ++d) {
    if (machine.ClassOf(DeviceId(d)).hardware.empty()) {
      profiles.push_back(nullptr);
      continue;
    }
    const DeviceFingerprint device = FingerprintOf(machine, DeviceId(d), backend);
    auto [entry, fresh] = loaded.try_emplace(device);
    if (fresh) {
      ASSIGN_OR_RETURN(Profile profile, db.Load(device, allow_foreign));
      if (profile.size() > 0) entry->second = std::make_shared<const Profile>(std::move(profile));
    }
    profiles.push_back(entry->second);
  }
  return profiles;
}

}  // namespace partita

#include "cost_model/default_cost_model.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cost_model/combinators.h"
#include "cost_model/link_cost.h"
#include "cost_model/measured_cost.h"
#include "cost_model/roofline_cost.h"
#include "cost_model/synthetic.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

std::unique_ptr<CostModel> CachedOn(const Machine& machine, std::unique_ptr<CostModel> model,
                                    std::vector<DeviceId> equal) {
  std::optional<AlikeNodes> nodes = AlikeNodes::Of(machine.topology, equal);
  return std::make_unique<Cached>(std::move(model), std::move(equal), std::move(nodes));
}

}  // namespace

std::unique_ptr<CostModel> MakeDefaultCostModel(std::shared_ptr<const Machine> machine,
                                                DeviceProfiles profiles,
                                                DeviceProfiles uncontended) {
  profiles.resize(static_cast<size_t>(machine->topology.size()));
  uncontended.resize(profiles.size());
  std::vector<DeviceId> equal = EqualDevices(*machine, profiles);
  const bool has_uncontended = !AreAllNull(uncontended);
  std::vector<std::unique_ptr<CostModel>> models;
  models.push_back(std::make_unique<MeasuredCost>(machine, profiles));
  models.push_back(std::make_unique<InterpolatedCost>(machine, std::move(profiles)));
  models.push_back(std::make_unique<RooflineCost>(machine));
  models.push_back(std::make_unique<LinkCost>(machine));
  std::unique_ptr<CostModel> model = std::make_unique<FirstMatch>(std::move(models));
  if (has_uncontended) {
    std::vector<std::unique_ptr<CostModel>> known;
    known.push_back(std::make_unique<MeasuredCost>(machine, uncontended));
    known.push_back(std::make_unique<InterpolatedCost>(machine, std::move(uncontended)));
    model = std::make_unique<ContendedAndUncontended>(
        std::move(model), std::make_unique<FirstMatch>(std::move(known)));
  }
  return CachedOn(*machine, std::move(model), std::move(equal));
}

std::unique_ptr<CostModel> MakeSyntheticCostModel(std::shared_ptr<const Machine> machine) {
  std::vector<std::unique_ptr<CostModel>> models;
  models.push_back(std::make_unique<SyntheticCost>(machine));
  models.push_back(std::make_unique<LinkCost>(machine));
  const DeviceProfiles none(machine->topology.size());
  return CachedOn(*machine, std::make_unique<FirstMatch>(std::move(models)),
                  EqualDevices(*machine, none));
}

absl::StatusOr<DeviceProfiles> LoadProfiles(const ProfileDb& db, const Machine& machine,
                                            const ProfileRequest& request) {
  DeviceProfiles profiles;
  absl::flat_hash_map<DeviceFingerprint, std::shared_ptr<const Profile>> loaded;
  const auto fingerprint = [&](int d) {
    const DeviceId id(d);
    DeviceFingerprint device =
        FingerprintOf(machine, id, request.backend(machine.topology.device(id)));
    return request.uncontended ? UncontendedFingerprint(std::move(device)) : device;
  };
  std::vector<DeviceFingerprint> measurable;
  for (int d = 0; d < machine.topology.size(); ++d) {
    if (!machine.ClassOf(DeviceId(d)).hardware.empty()) measurable.push_back(fingerprint(d));
  }
  if (!request.allow_foreign) RETURN_IF_ERROR(db.CheckHardware(measurable));
  for (int d = 0; d < machine.topology.size(); ++d) {
    if (machine.ClassOf(DeviceId(d)).hardware.empty()) {
      profiles.push_back(nullptr);
      continue;
    }
    const DeviceFingerprint device = fingerprint(d);
    auto [entry, fresh] = loaded.try_emplace(device);
    if (fresh) {
      auto profile = db.Load(device, request.allow_foreign);
      // Of this class nothing is known yet, though of another.
      if (!absl::IsFailedPrecondition(profile.status())) RETURN_IF_ERROR(profile.status());
      if (profile.ok() && profile->size() > 0) {
        entry->second = std::make_shared<const Profile>(*std::move(profile));
      }
    }
    profiles.push_back(entry->second);
  }
  return profiles;
}

}  // namespace partita

#include "cost_model/measured_cost.h"

#include <algorithm>
#include <utility>

#include "graph/support/check.h"

namespace partita {
namespace {

std::optional<TaskCost> CostOf(const Timing* timing) {
  if (timing == nullptr) return std::nullopt;
  return TaskCost{Nanos(std::max<int64_t>(1, timing->median_ns)), CostSource::kMeasured,
                  timing->spread};
}

}  // namespace

MeasuredCost::MeasuredCost(std::shared_ptr<const Machine> machine, DeviceProfiles profiles)
    : machine_(std::move(machine)), profiles_(std::move(profiles)) {
  CHECK_EQ(profiles_.size(), static_cast<size_t>(machine_->topology.size()));
}

std::optional<TaskCost> MeasuredCost::KernelCost(const KernelSignature& signature,
                                                 DeviceId device) const {
  const Profile* profile = profiles_[device.index()].get();
  return profile == nullptr ? std::nullopt : CostOf(profile->Find(signature));
}

std::optional<TaskCost> MeasuredCost::MoveCost(const MoveSignature& signature,
                                               DeviceId device) const {
  const Profile* profile = profiles_[device.index()].get();
  return profile == nullptr ? std::nullopt : CostOf(profile->Find(ToString(signature)));
}

std::optional<TaskCost> MeasuredCost::CollectiveCost(const CollectiveCall& call) const {
  const DeviceTopology& topology = machine_->topology;
  const Profile* profile = profiles_[call.group[0].index()].get();
  if (profile == nullptr) return std::nullopt;
  for (DeviceId id : call.group) {
    if (topology.device(id).node != topology.device(call.group[0]).node) return std::nullopt;
  }
  return CostOf(profile->Find(KeyOf(call)));
}

std::optional<TaskCost> MeasuredCost::TransferCost(std::span<const TransferCall>) const {
  return std::nullopt;
}

}  // namespace partita

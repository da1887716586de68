#include "cost_model/measured_cost.h"

#include <algorithm>
#include <utility>

#include "graph/support/check.h"

namespace partita {
namespace {

std::optional<TaskCost> CostOf(const Timing* timing) {
  if (timing == nullptr) return std::nullopt;
  const bool steady = SteadinessOf(*timing) == Steadiness::kSteady;
  return TaskCost{Nanos(std::max<int64_t>(1, timing->median_ns)),
                  steady ? CostSource::kMeasured : CostSource::kUnsteady, timing->spread};
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
  const Profile* profile = profiles_[call.group[0].index()].get();
  if (profile == nullptr || !AreAlike(machine_->topology, call.group)) return std::nullopt;
  return CostOf(profile->Find(KeyOf(call)));
}

std::optional<TaskCost> MeasuredCost::TransferCost(std::span<const TransferCall> group) const {
  const Profile* profile = ProfileOfGroup(*machine_, profiles_, group);
  return profile == nullptr ? std::nullopt : CostOf(profile->Find(KeyOf(group)));
}

Nanos MeasuredCost::StepOverhead(int64_t tasks) const {
  Nanos most;
  for (const auto& profile : profiles_) {
    if (profile == nullptr) continue;
    const std::span<const ProfilePoint> steps = profile->Family(RecordOfStep(0).family);
    if (steps.empty()) continue;
    // In the order of their keys; the fewest and the most tasks make the line.
    const auto [few, many] = std::minmax_element(
        steps.begin(), steps.end(),
        [](const ProfilePoint& a, const ProfilePoint& b) { return a.work.other < b.work.other; });
    const int64_t between = std::max<int64_t>(1, many->work.other - few->work.other);
    const int64_t rise = std::max<int64_t>(0, many->timing.median_ns - few->timing.median_ns);
    most = std::max(most, Nanos(few->timing.median_ns +
                                rise * std::max<int64_t>(0, tasks - few->work.other) / between));
  }
  return most;
}

const Profile* ProfileOfGroup(const Machine& machine, const DeviceProfiles& profiles,
                              std::span<const TransferCall> group) {
  if (group.empty()) return nullptr;
  for (const TransferCall& call : group) {
    const DeviceId both[] = {call.from, call.to}, senders[] = {group[0].from, call.from};
    if (!AreAlike(machine.topology, both) || !AreAlike(machine.topology, senders)) return nullptr;
  }
  return profiles[group[0].from.index()].get();
}

}  // namespace partita

#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "cost_model/cost_model.h"
#include "cost_model/machine.h"
#include "cost_model/profile.h"

namespace partita {

// Profile of each device of a machine; null where nothing was measured on it.
using DeviceProfiles = std::vector<std::shared_ptr<const Profile>>;

inline bool AreAllNull(const DeviceProfiles& profiles) {
  return std::all_of(profiles.begin(), profiles.end(),
                     [](const auto& profile) { return profile == nullptr; });
}

// Tasks that were measured, exactly as asked for, kernels in the precision of the device's class.
// Collectives: where all devices of the group are of one node and class, by the profile of the
// first; transfers likewise.
class MeasuredCost : public CostModel {
 public:
  MeasuredCost(std::shared_ptr<const Machine> machine, DeviceProfiles profiles);

  std::optional<TaskCost> KernelCost(const KernelSignature& signature,
                                     DeviceId device) const override;
  std::optional<TaskCost> MoveCost(const MoveSignature& signature, DeviceId device) const override;
  std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const override;
  std::optional<TaskCost> TransferCost(std::span<const TransferCall> group) const override;
  bool CountsBytesOfChannels() const override { return AreAllNull(profiles_); }
  // Overhead from steps of empty tasks: the line through the one with fewest and the one with most.
  Nanos StepOverhead(int64_t tasks) const override;

 private:
  std::shared_ptr<const Machine> machine_;
  DeviceProfiles profiles_;
};

// The profile of the first sender where all devices of the group are alike; null otherwise and
// where nothing is known.
const Profile* ProfileOfGroup(const Machine& machine, const DeviceProfiles& profiles,
                              std::span<const TransferCall> group);

// Tasks of which others of the same family were measured: kernels of the same operator, pass, types
// and formats at other extents and attributes, moves, collectives and transfers of the same kind.
//
// The roofline gives the shape, the neighbours the level: the time is the roofline's times the
// weighted geometric mean of (measured / roofline) of the nearest four. Distance is measured in
// powers of two of work and of bytes, plus 1 where attributes differ; the weight is
// 1 / (distance + 1/16)^2. So the factor is never outside the neighbours' own. Farther than a
// distance of 12 is "do not know".
class InterpolatedCost : public CostModel {
 public:
  InterpolatedCost(std::shared_ptr<const Machine> machine, DeviceProfiles profiles);

  std::optional<TaskCost> KernelCost(const KernelSignature& signature,
                                     DeviceId device) const override;
  std::optional<TaskCost> MoveCost(const MoveSignature& signature, DeviceId device) const override;
  std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const override;
  std::optional<TaskCost> TransferCost(std::span<const TransferCall> group) const override;
  bool CountsBytesOfChannels() const override { return AreAllNull(profiles_); }

 private:
  std::shared_ptr<const Machine> machine_;
  DeviceProfiles profiles_;
};

}  // namespace partita

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cost_model/cost_model.h"
#include "cost_model/machine.h"
#include "cost_model/profile.h"

namespace partita {

// A made-up profile for tests and benchmarks: times that look measured, and are the same in every
// run on every machine. A kernel takes its roofline's time, times a factor in [0.9, 1.3) of its
// family (operator and pass), times one in [0.98, 1.02) of its signature; moves likewise.
std::vector<int64_t> SyntheticSamples(const KernelSignature& signature, const DeviceClass& device);
std::vector<int64_t> SyntheticSamples(const MoveSignature& signature, const DeviceClass& device);

// The synthetic profile of every kernel and move there is, marked as measured; knows nothing of
// collectives and transfers.
class SyntheticCost : public CostModel {
 public:
  explicit SyntheticCost(std::shared_ptr<const Machine> machine);

  std::optional<TaskCost> KernelCost(const KernelSignature& signature,
                                     DeviceId device) const override;
  std::optional<TaskCost> MoveCost(const MoveSignature& signature, DeviceId device) const override;
  std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const override;
  std::optional<TaskCost> TransferCost(std::span<const TransferCall> group) const override;
  bool CountsBytesOfChannels() const override { return true; }

 private:
  std::shared_ptr<const Machine> machine_;
};

}  // namespace partita

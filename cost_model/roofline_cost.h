#pragma once

#include <memory>

#include "cost_model/cost_model.h"
#include "cost_model/machine.h"

namespace partita {

// Share of memory_bytes_per_second that kernels reach.
inline constexpr double kMemoryEfficiency = 0.75;

// Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 2009: the
// larger of arithmetic and memory traffic, plus the kernel's overhead. In seconds.
// `precision`: that of the multiply-adds; `efficiency`: share of the class's rate that they reach.
double RooflineSeconds(const DeviceClass& device, Precision precision, Work work, int64_t bytes,
                       double efficiency = 1);

// Moving `bytes` of payload within a device in runs of `run_bytes` (0: one run). Each run costs 32
// bytes more, and a change of format or element type takes two passes.
double MoveSeconds(const DeviceClass& device, MoveSignature::Kind kind, int64_t bytes,
                   int64_t run_bytes);

// Kernels and moves from the figures of the device's class, casts to the compute type included;
// multiply-adds reach the share of the peak that the operator's row states. Knows all of them, and
// nothing of collectives and transfers.
class RooflineCost : public CostModel {
 public:
  explicit RooflineCost(std::shared_ptr<const Machine> machine);

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

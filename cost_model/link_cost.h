#pragma once

#include <memory>

#include "cost_model/cost_model.h"
#include "cost_model/machine.h"
#include "cost_model/message_group.h"

namespace partita {

// Collectives and transfers from the links of the machine. Knows all of them (given that the
// algorithm exists and does the collective), and nothing of kernels and moves.
//
// A group of messages that start together takes the largest latency of their routes plus the
// largest time that any channel needs for all the bytes that cross it: full duplex, every channel
// busy at once. A message from a device to itself is a copy. Between CPU devices of one node the
// receiver reads the sender's memory: only the last channel of the route counts, so that a
// broadcast takes each receiver its own time and the sender none.
//
// A collective is its schedule: the sum over rounds of what the round's messages take as a group,
// or of what the device that adds most takes to add, if that is longer. Where the machine has a
// measured rate for the algorithm and the number of ranks and all devices are of one node, it is
// rounds * latency + bytes that the busiest rank receives / bandwidth.
class LinkCost : public CostModel {
 public:
  explicit LinkCost(std::shared_ptr<const Machine> machine);

  std::optional<TaskCost> KernelCost(const KernelSignature& signature,
                                     DeviceId device) const override;
  std::optional<TaskCost> MoveCost(const MoveSignature& signature, DeviceId device) const override;
  std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const override;
  std::optional<TaskCost> TransferCost(std::span<const TransferCall> group) const override;
  bool CountsBytesOfChannels() const override { return machine_->collective_rates.empty(); }

 private:
  TaskCost CostOverLinks(double seconds) const;
  double LimitOf(const CollectiveCall& call) const;

  std::shared_ptr<const Machine> machine_;
  MessageGroups messages_;
};

}  // namespace partita

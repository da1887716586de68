#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "graph/partition/exchange.h"
#include "graph/partition/exchange_tasks.h"

namespace partita {

// Answers which flows of an exchange reach a demand, which demands a device has, and which share of
// a flow a device owns. The exchange and its steps outlive the index and do not move.
class FlowIndex {
 public:
  FlowIndex(const TensorExchange& x, std::span<const ExchangeStep> steps);

  // Flows that bring the demand's value, each a part of it.
  std::span<const Flow* const> FlowsOf(size_t demand) const { return flows_of_demand_[demand]; }
  // Number of shares, of all flows, that a piece belongs to.
  int uses(int32_t piece) const { return piece_uses_[static_cast<size_t>(piece)]; }
  // The device's share of the flow, or null.
  const Share* ShareAt(const Flow& flow, DeviceId device) const;
  // Demands of a device, ascending.
  std::span<const int32_t> DemandsAt(DeviceId device) const;
  // Those of them that the flow serves.
  absl::InlinedVector<int32_t, 4> DemandsAt(const Flow& flow, DeviceId device) const;

 private:
  static constexpr size_t kFewOwners = 4;  // owners of a flow that are looked through

  std::vector<int> piece_uses_;
  std::vector<std::vector<const Flow*>> flows_of_demand_;
  absl::flat_hash_map<DeviceId, std::vector<int32_t>> demands_of_device_;
  // Shares of flows with more owners.
  absl::flat_hash_map<std::pair<const Flow*, DeviceId>, const Share*> share_at_;
};

}  // namespace partita

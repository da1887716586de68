#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/partition/exchange.h"
#include "graph/partition/exchange_tasks.h"
#include "graph/partition/items_by_device.h"

namespace partita {

// Answers which flows of an exchange reach a demand, which demands a device has, and which share of
// a flow a device owns. The exchange and its steps outlive the index and do not move.
class FlowIndex {
 public:
  FlowIndex(const TensorExchange& x, std::span<const ExchangeStep> steps);

  // Flows that bring the demand's value, each a part of it.
  std::span<const Flow* const> FlowsOf(size_t demand) const {
    return {flows_.data() + flow_begin_[demand], flows_.data() + flow_begin_[demand + 1]};
  }
  // Number of shares, of all flows, that a piece belongs to.
  int uses(int32_t piece) const { return piece_uses_[static_cast<size_t>(piece)]; }
  // The device's share of the flow, or null.
  const Share* ShareAt(const Flow& flow, DeviceId device) const;
  // Demands of a device, ascending.
  std::span<const int32_t> DemandsAt(DeviceId device) const { return demands_at_.At(device); }
  // Calls visit(demand) for those of them that the flow serves, ascending.
  template <class Visit>
  void ForEachDemandAt(const Flow& flow, DeviceId device, Visit&& visit) const {
    if (flow.demands.size() <= kFew) {
      for (int32_t j : flow.demands) {
        if (x_.demands[static_cast<size_t>(j)].device == device) visit(j);
      }
      return;
    }
    std::span<const int32_t> shorter = DemandsAt(device), longer = flow.demands;
    if (longer.size() < shorter.size()) std::swap(shorter, longer);
    for (int32_t j : shorter) {
      if (std::binary_search(longer.begin(), longer.end(), j)) visit(j);
    }
  }

 private:
  static constexpr size_t kFew = 4;  // entries of a list that are looked through

  void AddFlows(std::span<const ExchangeStep> steps);

  const TensorExchange& x_;
  std::vector<int> piece_uses_;
  ItemsByDevice demands_at_;
  // List of demand j is [begin[j], begin[j + 1]).
  std::vector<size_t> flow_begin_;
  std::vector<const Flow*> flows_;
  // Shares of flows with several owners that are not sorted by device.
  absl::flat_hash_map<std::pair<const Flow*, DeviceId>, const Share*> share_at_;
};

}  // namespace partita

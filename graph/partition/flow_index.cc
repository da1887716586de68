#include "graph/partition/flow_index.h"

#include <algorithm>

namespace partita {

FlowIndex::FlowIndex(const TensorExchange& x, std::span<const ExchangeStep> steps)
    : piece_uses_(x.pieces.size(), 0), flows_of_demand_(x.demands.size()) {
  for (size_t j = 0; j < x.demands.size(); ++j) {
    demands_of_device_[x.demands[j].device].push_back(static_cast<int32_t>(j));
  }
  for (const ExchangeStep& step : steps) {
    for (const Flow& flow : step.flows) {
      for (const Share& share : flow.owners) {
        if (flow.owners.size() > kFewOwners) share_at_[{&flow, share.device}] = &share;
        for (int32_t piece : share.pieces) ++piece_uses_[static_cast<size_t>(piece)];
      }
      for (int32_t j : flow.demands) {
        if (std::binary_search(flow.destinations.begin(), flow.destinations.end(),
                               x.demands[static_cast<size_t>(j)].device)) {
          flows_of_demand_[static_cast<size_t>(j)].push_back(&flow);
        }
      }
    }
  }
}

const Share* FlowIndex::ShareAt(const Flow& flow, DeviceId device) const {
  if (flow.owners.size() <= kFewOwners) {
    const auto own = std::find_if(flow.owners.begin(), flow.owners.end(),
                                  [&](const Share& share) { return share.device == device; });
    return own == flow.owners.end() ? nullptr : &*own;
  }
  const auto found = share_at_.find({&flow, device});
  return found == share_at_.end() ? nullptr : found->second;
}

std::span<const int32_t> FlowIndex::DemandsAt(DeviceId device) const {
  const auto at = demands_of_device_.find(device);
  return at == demands_of_device_.end() ? std::span<const int32_t>() : at->second;
}

// What is in both of two sorted lists.
absl::InlinedVector<int32_t, 4> FlowIndex::DemandsAt(const Flow& flow, DeviceId device) const {
  std::span<const int32_t> shorter = DemandsAt(device), longer = flow.demands;
  if (longer.size() < shorter.size()) std::swap(shorter, longer);
  absl::InlinedVector<int32_t, 4> found;
  for (int32_t j : shorter) {
    if (std::binary_search(longer.begin(), longer.end(), j)) found.push_back(j);
  }
  return found;
}

}  // namespace partita

#include "graph/partition/flow_index.h"

#include <algorithm>

namespace partita {
namespace {

bool DeviceBefore(const Share& a, const Share& b) { return a.device < b.device; }

// Turns counts, each one place late, into where the lists begin.
void SumUp(std::vector<size_t>& begin) {
  for (size_t k = 1; k < begin.size(); ++k) begin[k] += begin[k - 1];
}

}  // namespace

FlowIndex::FlowIndex(const TensorExchange& x, std::span<const ExchangeStep> steps)
    : x_(x), piece_uses_(x.pieces.size(), 0) {
  size_t devices = 0;
  for (const Demand& demand : x.demands) devices = std::max(devices, demand.device.index() + 1);
  demand_begin_.assign(devices + 1, 0);
  for (const Demand& demand : x.demands) ++demand_begin_[demand.device.index() + 1];
  SumUp(demand_begin_);
  demands_.resize(x.demands.size());
  std::vector<size_t> next(demand_begin_.begin(), demand_begin_.end() - 1);
  for (size_t j = 0; j < x.demands.size(); ++j) {
    demands_[next[x.demands[j].device.index()]++] = static_cast<int32_t>(j);
  }
  AddFlows(steps);
}

void FlowIndex::AddFlows(std::span<const ExchangeStep> steps) {
  struct Reached {
    size_t demand;
    const Flow* flow;
  };
  size_t most = 0;
  for (const ExchangeStep& step : steps) {
    for (const Flow& flow : step.flows) most += flow.demands.size();
  }
  std::vector<Reached> reached;
  reached.reserve(most);
  flow_begin_.assign(x_.demands.size() + 1, 0);
  for (const ExchangeStep& step : steps) {
    for (const Flow& flow : step.flows) {
      const std::span<const DeviceId> to = flow.destinations;
      for (int32_t j : flow.demands) {
        const auto demand = static_cast<size_t>(j);
        const DeviceId device = x_.demands[demand].device;
        const bool reaches =
            to.size() == 1 ? to[0] == device : std::binary_search(to.begin(), to.end(), device);
        if (!reaches) continue;
        reached.push_back({demand, &flow});
        ++flow_begin_[demand + 1];
      }
    }
  }
  SumUp(flow_begin_);
  flows_.resize(flow_begin_.back());
  std::vector<size_t> next(flow_begin_.begin(), flow_begin_.end() - 1);
  for (const Reached& one : reached) flows_[next[one.demand]++] = one.flow;
  for (const ExchangeStep& step : steps) {
    for (const Flow& flow : step.flows) {
      const bool is_sorted = std::is_sorted(flow.owners.begin(), flow.owners.end(), DeviceBefore);
      for (const Share& share : flow.owners) {
        if (!is_sorted) share_at_[{&flow, share.device}] = &share;
        for (int32_t piece : share.pieces) ++piece_uses_[static_cast<size_t>(piece)];
      }
    }
  }
}

const Share* FlowIndex::ShareAt(const Flow& flow, DeviceId device) const {
  const auto own =
      std::lower_bound(flow.owners.begin(), flow.owners.end(), Share{device, -1, {}}, DeviceBefore);
  if (own != flow.owners.end() && own->device == device) return &*own;
  if (share_at_.empty()) return nullptr;
  const auto found = share_at_.find({&flow, device});
  return found == share_at_.end() ? nullptr : found->second;
}

std::span<const int32_t> FlowIndex::DemandsAt(DeviceId device) const {
  if (device.index() + 1 >= demand_begin_.size()) return {};
  return {demands_.data() + demand_begin_[device.index()],
          demands_.data() + demand_begin_[device.index() + 1]};
}

}  // namespace partita

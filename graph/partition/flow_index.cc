#include "graph/partition/flow_index.h"

#include <algorithm>
#include <numeric>

namespace partita {
namespace {

bool DeviceBefore(const Share& a, const Share& b) { return a.device < b.device; }

}  // namespace

FlowIndex::FlowIndex(const TensorExchange& x, std::span<const ExchangeStep> steps)
    : x_(x), piece_uses_(x.pieces.size(), 0), demands_at_(std::span<const Demand>(x.demands)) {
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
  std::partial_sum(flow_begin_.begin(), flow_begin_.end(), flow_begin_.begin());
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

}  // namespace partita

#include "planner/expert/hypergraph/hypergraph.h"

#include <algorithm>
#include <utility>

#include "graph/support/sort.h"

namespace partita {

Hypergraph::Hypergraph(std::vector<int64_t> weights, std::vector<Net> nets)
    : weights_(std::move(weights)) {
  for (int64_t weight : weights_) total_weight_ += weight;
  std::erase_if(nets, [](const Net& net) { return net.pins.size() < 2 || net.cost <= 0; });
  for (Net& net : nets) SortUnlessSorted(net.pins.begin(), net.pins.end());
  std::sort(nets.begin(), nets.end(), [](const Net& a, const Net& b) { return a.pins < b.pins; });
  pin_begin_ = {0};
  const std::vector<int32_t>* before = nullptr;
  for (const Net& net : nets) {
    if (before != nullptr && *before == net.pins) {
      costs_.back() += net.cost;
      continue;
    }
    before = &net.pins;
    costs_.push_back(net.cost);
    pins_.insert(pins_.end(), net.pins.begin(), net.pins.end());
    pin_begin_.push_back(pins_.size());
  }
  net_begin_.assign(weights_.size() + 1, 0);
  for (int32_t pin : pins_) ++net_begin_[static_cast<size_t>(pin) + 1];
  for (size_t v = 0; v < weights_.size(); ++v) net_begin_[v + 1] += net_begin_[v];
  nets_.resize(pins_.size());
  std::vector<size_t> next(net_begin_.begin(), net_begin_.end() - 1);
  for (int32_t net = 0; net < this->nets(); ++net) {
    for (int32_t pin : pins(net)) nets_[next[static_cast<size_t>(pin)]++] = net;
  }
}

int64_t ConnectivityMinusOne(const Hypergraph& hypergraph, std::span<const int32_t> parts) {
  int64_t sum = 0;
  std::vector<int32_t> seen;
  for (int32_t net = 0; net < hypergraph.nets(); ++net) {
    seen.clear();
    for (int32_t pin : hypergraph.pins(net)) seen.push_back(parts[static_cast<size_t>(pin)]);
    std::sort(seen.begin(), seen.end());
    const auto different = std::unique(seen.begin(), seen.end()) - seen.begin();
    sum += hypergraph.cost(net) * (different - 1);
  }
  return sum;
}

int64_t HeaviestPart(const Hypergraph& hypergraph, std::span<const int32_t> parts, int32_t count) {
  std::vector<int64_t> weights(static_cast<size_t>(count), 0);
  for (int32_t v = 0; v < hypergraph.vertices(); ++v) {
    weights[static_cast<size_t>(parts[static_cast<size_t>(v)])] += hypergraph.weight(v);
  }
  return *std::max_element(weights.begin(), weights.end());
}

}  // namespace partita

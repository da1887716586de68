#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/partition/exchange.h"
#include "graph/partition/fragment.h"

namespace partita {

// Nodes of a machine; `node_of_device`: empty for one node.
int32_t NodeCount(std::span<const int32_t> node_of_device);

// Elements of a tensor that a device, or a node, lacks and gets from others in a step.
struct Arrivals {
  std::vector<int64_t> at_device;  // indexed by DeviceId: from other devices
  std::vector<int64_t> at_node;    // indexed by node: from other nodes
};

// Least elements that arrive, whatever way Exchange finds, for what operators read of a tensor that
// operators make: from the boxes alone, without building a fragment. An element that sums several
// terms has to arrive where any of them is lacking; where boxes cover each other, as those of gradients
// with halos do, one that lies outside a device's own. Empty lists where nothing is known: for tensors
// that persist or come from the host, and where the pieces are no grid. `node_of_device`: empty for
// one node.
Arrivals LeastArrivals(const Graph& graph, const Tensor& tensor, PartsByOp parts,
                       std::span<const int32_t> node_of_device, int devices);

// Least elements that arrive from others in one step of an exchange, whatever algorithm runs it. Made
// once for many steps.
class StepArrivals {
 public:
  // `node_of_device`: empty for one node.
  StepArrivals(int devices, std::span<const int32_t> node_of_device);

  // Finds those of a step, which then answers the questions below until the next.
  void Find(const ExchangeStep& step);

  int64_t at_device(DeviceId device) const { return at_device_[device.index()]; }
  // Nodes of the step's devices, each once; what arrives at one from other nodes.
  std::span<const int32_t> nodes() const { return nodes_; }
  int64_t at_node(int32_t node) const { return at_node_[static_cast<size_t>(node)]; }
  // Sums over all devices, and over all nodes.
  int64_t at_devices() const { return at_devices_; }
  int64_t at_nodes() const { return at_nodes_; }

 private:
  int32_t NodeOf(DeviceId device) const {
    return node_of_device_.empty() ? 0 : node_of_device_[device.index()];
  }
  void AddTransfers(const ExchangeStep& step);
  void AddGather(const ExchangeStep& step);
  void AddReduction(const ExchangeStep& step);

  const std::span<const int32_t> node_of_device_;
  // Elements of the step at hand; 0 for other devices and nodes.
  std::vector<int64_t> at_device_, at_node_;
  std::vector<DeviceId> devices_;
  std::vector<int32_t> nodes_;
  int64_t at_devices_ = 0, at_nodes_ = 0;
};

}  // namespace partita

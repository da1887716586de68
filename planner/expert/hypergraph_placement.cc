// Channels and neurons over devices by hypergraph partitioning: what is computed is balanced, what is
// sent is the connectivity of the partition minus one. Every channel lies on one device with its
// weights, which are not exchanged. Devices mostly wait for each other, since nothing is split by
// sample: the least to send, not the least time.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "planner/expert/channel_blocks.h"
#include "planner/expert/expert_strategies.h"
#include "planner/expert/hypergraph/partitioner.h"
#include "planner/expert/splits.h"

namespace partita {
namespace {

constexpr int64_t kMostBlocks = 64;  // of an operator: each may become a kernel
constexpr double kImbalance = 0.05;
constexpr int32_t kFewestForDevice = 8;  // blocks: fewer are hardly balanced, and found out late
// Devices up to which the best of several partitions is taken; for more each takes long.
constexpr int kFewDevices = 16;

}  // namespace

absl::StatusOr<Strategy> HypergraphPlacement(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const SearchSpace space(graph, topology.size());
  const ChannelBlocks blocks(graph, space, kMostBlocks);
  const Hypergraph& hypergraph = blocks.hypergraph();
  PartitionerOptions options{.parts = topology.size(), .imbalance = kImbalance};
  if (topology.size() > kFewDevices) options.runs = 1;
  const int64_t limit = PartLimit(hypergraph, options);
  int64_t heaviest = 0;
  for (int32_t v = 0; v < hypergraph.vertices(); ++v) {
    heaviest = std::max(heaviest, hypergraph.weight(v));
  }
  if (heaviest > limit || hypergraph.vertices() < kFewestForDevice * options.parts) {
    return DeclinedError(absl::StrCat("blocks of channels are too large to balance ",
                                      topology.size(), " devices to ", kImbalance * 100, " %"));
  }
  std::vector<int32_t> parts = PartitionHypergraph(hypergraph, options);
  // Blocks of unequal sizes may leave the balance when they change places.
  std::vector<int32_t> ordered = blocks.InOrder(parts);
  if (HeaviestPart(hypergraph, ordered, options.parts) <= limit) parts = std::move(ordered);
  if (HeaviestPart(hypergraph, parts, options.parts) > limit) {
    return DeclinedError(absl::StrCat("no partition of the channels was found that balances ",
                                      topology.size(), " devices to ", kImbalance * 100, " %"));
  }
  return ForEachAnchor(graph, [&](const Operator& op) { return blocks.ConfigOf(op, parts); });
}

}  // namespace partita

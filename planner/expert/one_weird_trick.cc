// Krizhevsky 2014 (arXiv 1404.5997), section 4. Convolutions split by sample over K workers, fully
// connected layers by output channel. Three schemes bring samples to the fully connected layers:
//
//   (a)  every worker gathers all samples, and makes one pass over them
//   (b)  in round k all workers make a pass over worker k's samples, which it broadcast
//   (c)  in each round every worker sends 1/K of its samples to all others
//
// (a) and (b) are configurations: a sample block for each round in (b), all on every device. An
// exchange joins the broadcasts of one tensor within one group of devices to one all-gather, so that
// both move the same bytes at the same time, and (b) runs kernels of 1/K of the samples.
// (c) is none: the samples of a round come from every worker, and a part's block is one interval of
// the samples. With a block for each worker and round it would be (b) in K^2 blocks.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "planner/expert/expert_strategies.h"
#include "planner/expert/mesh.h"
#include "planner/expert/splits.h"

namespace partita {
namespace {

// Most parts of a fully connected layer: each is a kernel.
constexpr int64_t kMostRoundParts = 1024;

// The loop of a one-operand operator that follows the channels of rows; -1 if there is none.
int ChannelLoop(const Graph& graph, const Operator& op, int ways) {
  const ShardingRule& rule = graph.rule(op.id);
  const int c = rule.FindLoop("c");
  const bool follows = !HasWeights(graph, op) && rule.operands.size() == 1 &&
                       ResultRank(graph, op) == 2 && c >= 0 &&
                       LoopsOf(rule.results[0].dims).Contains(c) &&
                       rule.loops[static_cast<size_t>(c)].extent >= ways;
  return follows ? c : -1;
}

// `rounds` sample blocks of fully connected layers, each on all devices.
absl::StatusOr<Strategy> InRounds(const Graph& graph, const DeviceTopology& topology, int rounds) {
  const int ways = topology.size();
  const std::vector<DeviceId> devices = DeviceRange(0, ways);
  const SearchSpace space(graph, ways);
  DeviceMesh mesh{{rounds, ways}, {}};
  for (int r = 0; r < rounds; ++r) {
    mesh.devices.insert(mesh.devices.end(), devices.begin(), devices.end());
  }
  bool any = false;
  // Tensors made of a fully connected layer's channel split: what follows element by element splits
  // alike.
  std::vector<bool> by_channel(graph.tensors().size(), false);
  Strategy strategy = ForEachAnchor(graph, [&](const Operator& op) {
    const ShardingRule& rule = graph.rule(op.id);
    const bool dense = IsDense(graph, op);
    int channel = -1;
    if (dense) {
      // Of parameter loops the one that indexes the result; reductions are another role.
      channel = WidestLoop(graph, op, LoopRole::kParameter, ways);
    } else if (!op.inputs.empty() && by_channel[op.inputs[0].index()]) {
      channel = ChannelLoop(graph, op, ways);
    }
    any |= dense && channel >= 0;
    for (TensorId id : op.outputs) by_channel[id.index()] = channel >= 0;
    if (channel < 0) return BySample(rule, devices);
    const AxisSplits loops = {rule.FindLoop("n"), channel};
    if (!HasRoom(rule, mesh, loops)) return BySample(rule, devices);
    return OrBySample(space, op, OverMesh(rule, mesh, loops), devices);
  });
  if (!any) {
    return DeclinedError("the model has no fully connected layer that splits over all devices");
  }
  return strategy;
}

}  // namespace

absl::StatusOr<Strategy> OneWeirdTrick(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  return InRounds(graph, topology, 1);
}

absl::StatusOr<Strategy> OneWeirdTrickRounds(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const int64_t parts = int64_t{topology.size()} * topology.size();
  if (parts > kMostRoundParts) {
    return DeclinedError(absl::StrCat("a round for each of ", topology.size(),
                                      " devices would cut a fully connected layer into ", parts,
                                      " parts; wanted at most ", kMostRoundParts));
  }
  if (graph.batch() < topology.size()) {
    return DeclinedError("the batch has fewer samples than there are devices, each with a round");
  }
  return InRounds(graph, topology, topology.size());
}

}  // namespace partita

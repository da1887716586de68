#include "graph/partition/demand_groups.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace partita {
namespace {

// What a consumer of a weight does with it.
enum class Use : uint8_t { kForward, kGradient, kUpdate };

Use UseOf(const Operator& op) {
  if (op.anchor == kNoOp) return Use::kUpdate;
  return op.pass.is_forward() ? Use::kForward : Use::kGradient;
}

void MoveConsumers(DemandGroup& from, DemandGroup& to) {
  to.consumers.insert(to.consumers.end(), from.consumers.begin(), from.consumers.end());
  std::sort(to.consumers.begin(), to.consumers.end());
  from.consumers.clear();
}

}  // namespace

std::vector<DemandGroup> FindDemandGroups(const Graph& graph, const Tensor& tensor) {
  std::vector<DemandGroup> groups;
  std::map<std::pair<std::vector<OpId>, Use>, size_t> places;
  for (OpId id : graph.consumers(tensor.id)) {
    const Operator& op = graph.op(id);
    const Use use = tensor.kind == TensorKind::kWeight ? UseOf(op) : Use::kForward;
    const auto [it, added] = places.try_emplace({op.after, use}, groups.size());
    if (added) groups.push_back({{}, op.after});
    groups[it->second].consumers.push_back(id);
  }
  if (groups.empty()) groups.emplace_back();
  return groups;
}

std::vector<DemandGroup> ApplyGathers(const Graph& graph, const WeightLayouts& layouts,
                                      std::vector<DemandGroup> groups) {
  for (size_t g = 0; g < groups.size(); ++g) {
    DemandGroup& group = groups[g];
    if (group.consumers.empty()) continue;
    if (layouts.prefetch.has_value()) {
      if (UseOf(graph.op(group.consumers[0])) == Use::kUpdate) continue;
      const OpId opens = GatherOpener(graph, group.consumers[0], *layouts.prefetch);
      if (opens == kNoOp) continue;
      group.after.insert(std::upper_bound(group.after.begin(), group.after.end(), opens), opens);
      group.after.erase(std::unique(group.after.begin(), group.after.end()), group.after.end());
      continue;
    }
    for (size_t first = 0; first < g; ++first) {
      if (groups[first].after != group.after) continue;
      MoveConsumers(group, groups[first]);
      break;
    }
  }
  return groups;
}

std::vector<DemandGroup> JoinGroups(std::vector<DemandGroup> groups) {
  for (size_t g = 1; g < groups.size(); ++g) {
    if (groups[g].consumers.empty()) continue;
    std::vector<OpId> shared;
    std::set_intersection(groups[0].after.begin(), groups[0].after.end(), groups[g].after.begin(),
                          groups[g].after.end(), std::back_inserter(shared));
    groups[0].after = std::move(shared);
    MoveConsumers(groups[g], groups[0]);
  }
  return groups;
}

}  // namespace partita

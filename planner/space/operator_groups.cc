#include "planner/space/operator_groups.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "planner/space/like_operators.h"

namespace partita {
namespace {

// Indexed by place in graph.anchors().
std::vector<int32_t> ClassesOf(const Graph& graph, Grouping grouping) {
  if (grouping == Grouping::kOfShapes) return ShapeClasses(graph);
  if (grouping == Grouping::kOfLike) return LikeClasses(graph);
  std::vector<int32_t> classes(graph.anchors().size());
  std::iota(classes.begin(), classes.end(), 0);
  return classes;
}

}  // namespace

OperatorGroups::OperatorGroups(const SearchSpace& space, std::span<const Grouping> groupings)
    : space_(space),
      groupings_(groupings.begin(), groupings.end()),
      is_free_(space.graph().ops().size(), false) {
  const Graph& graph = space.graph();
  for (OpId op : space.operators()) is_free_[op.index()] = true;
  for (Grouping grouping : groupings_) {
    class_of_.push_back(ByOperator(graph, ClassesOf(graph, grouping)));
  }
}

std::vector<OperatorGroup> OperatorGroups::Of(const Strategy& strategy) const {
  std::vector<OperatorGroup> groups;
  for (size_t number = 0; number < groupings_.size(); ++number) {
    AddGroups(number, strategy, groups);
  }
  absl::flat_hash_set<std::vector<OpId>> known;
  std::erase_if(groups,
                [&](const OperatorGroup& group) { return !known.insert(group.ops).second; });
  return groups;
}

void OperatorGroups::AddGroups(size_t number, const Strategy& strategy,
                               std::vector<OperatorGroup>& groups) const {
  absl::flat_hash_map<int32_t, std::vector<size_t>> of_class;  // numbers of groups
  for (OpId op : space_.operators()) {
    const ParallelConfig& config = strategy.configs[op.index()];
    std::vector<size_t>& known = of_class[class_of_[number][op.index()]];
    const auto alike = std::find_if(known.begin(), known.end(), [&](size_t group) {
      return strategy.configs[groups[group].ops[0].index()] == config;
    });
    if (alike != known.end()) {
      groups[*alike].ops.push_back(op);
    } else {
      known.push_back(groups.size());
      groups.push_back({groupings_[number], {op}});
    }
  }
}

}  // namespace partita

#include "planner/space/operator_groups.h"

#include <algorithm>
#include <numeric>
#include <utility>

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
      shape_class_(ByOperator(space.graph(), ShapeClasses(space.graph()))),
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
  FindRepeats(strategy, groups);
  return groups;
}

void OperatorGroups::FindRepeats(const Strategy& strategy,
                                 std::vector<OperatorGroup>& groups) const {
  const auto first_of = [&](size_t group) { return groups[group].ops[0].index(); };
  // Numbers of groups that are alike.
  absl::flat_hash_map<std::pair<Grouping, int32_t>, std::vector<std::vector<size_t>>> alike;
  for (size_t g = 0; g < groups.size(); ++g) {
    auto& of_shapes = alike[{groups[g].grouping, shape_class_[first_of(g)]}];
    const auto same = std::ranges::find_if(of_shapes, [&](const std::vector<size_t>& others) {
      return strategy.configs[first_of(others[0])] == strategy.configs[first_of(g)];
    });
    if (same != of_shapes.end()) {
      same->push_back(g);
    } else {
      of_shapes.push_back({g});
    }
  }
  for (const auto& [key, of_shapes] : alike) {
    for (const std::vector<size_t>& same : of_shapes) {
      for (size_t k = 1; k + 1 < same.size(); ++k) {
        groups[same[k]].is_repeat = k != same.size() / 2;
      }
    }
  }
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

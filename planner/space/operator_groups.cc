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

// Numbers operators that have one class and one configuration, from 0 in the order in which they come.
class ConfiguredClasses {
 public:
  // The strategy outlives this.
  explicit ConfiguredClasses(const Strategy& strategy) : strategy_(strategy) {}

  size_t NumberOf(int32_t class_of, OpId op) {
    const ParallelConfig& config = strategy_.configs[op.index()];
    std::vector<Known>& known = of_class_[class_of];
    const auto alike =
        std::ranges::find_if(known, [&](const Known& one) { return *one.config == config; });
    if (alike != known.end()) return alike->number;
    known.push_back({&config, count_});
    return count_++;
  }

 private:
  struct Known {
    const ParallelConfig* config;
    size_t number;
  };

  const Strategy& strategy_;
  absl::flat_hash_map<int32_t, std::vector<Known>> of_class_;
  size_t count_ = 0;
};

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

std::vector<OpId> OperatorGroups::RowFrom(OpId op, bool is_behind, const ParallelConfig& config,
                                          const Strategy& strategy) const {
  std::vector<OpId> row;
  for (OpId other : space_.operators()) {
    if (other == op || (other > op) != is_behind) continue;
    const bool is_like = shape_class_[other.index()] == shape_class_[op.index()];
    if (is_like && strategy.configs[other.index()] == config) row.push_back(other);
  }
  if (!is_behind) std::reverse(row.begin(), row.end());
  return row;
}

void OperatorGroups::FindRepeats(const Strategy& strategy,
                                 std::vector<OperatorGroup>& groups) const {
  for (Grouping grouping : groupings_) {
    ConfiguredClasses classes(strategy);
    std::vector<std::vector<OperatorGroup*>> alike;
    for (OperatorGroup& group : groups) {
      if (group.grouping != grouping) continue;
      const OpId first = group.ops[0];
      const size_t number = classes.NumberOf(shape_class_[first.index()], first);
      if (number == alike.size()) alike.emplace_back();
      alike[number].push_back(&group);
    }
    for (const std::vector<OperatorGroup*>& same : alike) {
      for (size_t k = 1; k + 1 < same.size(); ++k) same[k]->is_repeat = k != same.size() / 2;
    }
  }
}

void OperatorGroups::AddGroups(size_t number, const Strategy& strategy,
                               std::vector<OperatorGroup>& groups) const {
  ConfiguredClasses classes(strategy);
  const size_t first = groups.size();
  for (OpId op : space_.operators()) {
    const size_t group = first + classes.NumberOf(class_of_[number][op.index()], op);
    if (group == groups.size()) groups.push_back({groupings_[number], {}});
    groups[group].ops.push_back(op);
  }
}

}  // namespace partita

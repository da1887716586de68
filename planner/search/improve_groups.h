#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/search/group_changes.h"
#include "planner/search/walk.h"
#include "planner/space/operator_groups.h"

namespace partita {

// A descent: goes on to the best of some changes.
class GroupImprover;

// Descents of one search, whose changes' local costs are found once. Not for several threads.
//
// A descent changes the groups of a strategy, each as a whole, as long as that makes it faster
// (GroupChanges); always to the best of those of one kind. Groupings come in their order, first the
// groups for which the step waits longest (Evaluator::CriticalTimes), and all repeats
// (OperatorGroup::is_repeat) at the end; after a change those that it may have affected, as they are next
// to it, come before all others. What improves the strategy for one operator is given to those of equal
// shapes before and behind it, to 1, 2, 4 and so on of them, as long as that does. On many devices changes
// that by themselves add much to the step are tried when no other is left, and layouts of weights for
// which it waits little.
// Repeated blocks thus cost as one, and no chance is in it.
class GroupDescents {
 public:
  // All that is passed outlives this.
  GroupDescents(const SearchProblem& problem, SearchState& state,
                std::span<const Grouping> groupings);
  ~GroupDescents();
  GroupDescents(const GroupDescents&) = delete;
  GroupDescents& operator=(const GroupDescents&) = delete;

  // Descends until none of the changes improves, or so many evaluations are spent; from a point that a
  // descent has come to with what was tried there. Ends, too, where a part of a search
  // (SearchProblem::is_part) gains little. A point that does not fit in memory is returned as it is.
  WalkPoint Improve(WalkPoint from, int64_t budget);

 private:
  const SearchProblem& problem_;
  SearchState& state_;
  const OperatorGroups groups_;
  std::optional<GroupChanges> changes_;  // from the first descent on
  std::vector<std::unique_ptr<GroupImprover>> descents_;
};

// The best start, changed by groups of each grouping until none of the changes improves it.
absl::StatusOr<SearchResult> SearchGroups(const SearchProblem& problem,
                                          const SearchOptions& options);

}  // namespace partita

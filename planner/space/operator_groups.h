#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/space/search_space.h"

namespace partita {

// Operators of one configuration that are a group: those of equal shapes (ShapeClasses),
// those that are like each other (LikeClasses), or each by itself.
enum class Grouping : uint8_t { kOfShapes, kOfLike, kSingle };
inline constexpr Grouping kGroupings[] = {Grouping::kOfShapes, Grouping::kOfLike,
                                          Grouping::kSingle};

struct OperatorGroup {
  Grouping grouping;
  std::vector<OpId> ops;  // ascending by layer; one at least
  // Whether it is one of several of its grouping whose first operators have equal shapes and one
  // configuration, such as steps of a recurrent layer, and neither the first of them, the last, nor the
  // one between: what changes do to those they mostly do to it.
  bool is_repeat = false;
};

// Groups of the operators that a space leaves free. The space outlives this.
class OperatorGroups {
 public:
  OperatorGroups(const SearchSpace& space, std::span<const Grouping> groupings);

  // Groups of a strategy, of each grouping in turn; none twice.
  std::vector<OperatorGroup> Of(const Strategy& strategy) const;
  // Free operators of equal shapes that have a configuration, from an operator on in the graph's order
  // or, `is_behind` not set, towards its beginning; without that operator.
  std::vector<OpId> RowFrom(OpId op, bool is_behind, const ParallelConfig& config,
                            const Strategy& strategy) const;
  // Whether the operator is free.
  bool IsFree(OpId op) const { return is_free_[op.index()]; }

 private:
  void AddGroups(size_t number, const Strategy& strategy, std::vector<OperatorGroup>& groups) const;
  void FindRepeats(const Strategy& strategy, std::vector<OperatorGroup>& groups) const;

  const SearchSpace& space_;
  const std::vector<Grouping> groupings_;
  std::vector<std::vector<int32_t>> class_of_;  // by place in groupings_ and OpId
  const std::vector<int32_t> shape_class_;      // indexed by OpId
  std::vector<bool> is_free_;                   // likewise
};

}  // namespace partita

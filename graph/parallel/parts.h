#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/part_view.h"

namespace partita {

// One part of an operator under a strategy.
struct Part {
  int32_t index = 0;  // index within the operator's configuration: the first of parts that were
                      // merged
  DeviceId device;
  // The block along every loop of the operator itself: parts with equal terms compute equal values.
  int32_t term = 0;
  PartView view;         // view by the operator's own rule (a gradient's is derived)
  bool is_copy = false;  // another device has a part of that term
};

// The parts that compute something, in index order. Parts with one term on one device are one part;
// a part that has no result (the gradient of an operand that only the first part reads) is left
// out. InvalidArgument if the configuration does not fit, naming the operator.
absl::StatusOr<std::vector<Part>> PartsOf(const Graph& graph, const Operator& op,
                                          const ParallelConfig& anchor_config);
// Whether PartsOf has them, without making any. Precondition: ValidateConfig of the anchor.
bool HasParts(const Graph& graph, const Operator& op, const ParallelConfig& anchor_config);
// Parts that are the first, second or last along each loop: of an even split, one of every size and
// with every kind of border.
absl::StatusOr<std::vector<Part>> SamplePartsOf(const Graph& graph, const Operator& op,
                                                const ParallelConfig& anchor_config);

// The parts of an update operator: one for each region of its weight's update layout. All have term
// 0.
absl::StatusOr<std::vector<Part>> UpdateParts(const Graph& graph, const Operator& op,
                                              const std::vector<PlacedBox>& update_layout);

// Operators anchored to each operator, itself included, in topological order; indexed by OpId, empty
// but for anchors. They share its configuration.
std::vector<std::vector<OpId>> FollowersOf(const Graph& graph);

}  // namespace partita

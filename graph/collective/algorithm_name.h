#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/collective/schedule.h"

namespace partita {

// "multicolor_tree(colors=4,segments=8)" taken apart.
struct NamedAlgorithm {
  std::string row;
  ScheduleOptions options;
};

// InvalidArgument where settings are not "(name=value,...)" with names and values of
// ScheduleOptions; the row may be any word. `options` are those without a setting.
absl::StatusOr<NamedAlgorithm> ParseAlgorithm(absl::string_view name,
                                              const ScheduleOptions& options);

// The value of the setting "nodes": "0*2+1*3+0" for {0, 0, 1, 1, 1, 0}. Nodes are renumbered, in
// order of their first rank.
std::string NodesText(std::span<const int> nodes);

// Counts the distinct nodes.
size_t CountNodes(std::span<const int> nodes);

}  // namespace partita

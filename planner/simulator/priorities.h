#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/support/strong_int.h"
#include "planner/simulator/flat_tasks.h"

namespace partita {

// A rule by which a resource chooses between tasks that are ready at the same time.
struct Priority {
  const char* name;
  const char* description;
  // Priorities by task, 0 or more: the larger, the earlier. Sums of durations fit 62 bits.
  std::vector<int64_t> (*of)(const FlatTasks& tasks, std::span<const Nanos> durations);
};

// THE table; the first row is what schedules have unless another is asked for.
std::span<const Priority> Priorities();
inline const Priority& DefaultPriority() { return Priorities()[0]; }
// NotFound, listing the rows, for an unknown name; empty: the default.
absl::StatusOr<const Priority*> PriorityNamed(absl::string_view name);

}  // namespace partita

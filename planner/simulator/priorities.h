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

// A rule by which a resource chooses between the tasks that wait for it.
struct Priority {
  const char* name;
  const char* description;
  // Priorities by task, 0 or more: the larger, the earlier. Sums of durations fit 62 bits. Urgencies of
  // subjects (UrgenciesOf): none where all are alike.
  std::vector<int64_t> (*of)(const FlatTasks& tasks, std::span<const Nanos> durations,
                             std::span<const int32_t> urgencies);
  // Whether it looks no farther than the task's subject: then schedules come from placed tasks
  // (PlacedStep).
  bool is_local = false;
  // Whether tasks start in the order in which they got ready, and priorities decide between those
  // that did so at the same time only. Otherwise a resource that becomes free takes, of all tasks
  // that could start, the one of the largest priority (list scheduling).
  bool by_readiness = false;
};

// The longest time that each task and a chain of tasks behind it take.
std::vector<int64_t> RemainingPaths(const FlatTasks& tasks, std::span<const Nanos> durations,
                                    std::span<const int32_t> urgencies = {});

// THE table; the first row is what schedules have unless another is asked for.
std::span<const Priority> Priorities();
inline const Priority& DefaultPriority() { return Priorities()[0]; }
// NotFound, listing the rows, for an unknown name; empty: the default.
absl::StatusOr<const Priority*> PriorityNamed(absl::string_view name);

}  // namespace partita

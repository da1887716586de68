#include "planner/simulator/priorities.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

// The largest sum of `own(task)` over chains that begin with the task.
template <class Own>
std::vector<int64_t> LongestChains(const FlatTasks& tasks, Own&& own) {
  std::vector<int64_t> chain(tasks.size());
  for (size_t t = tasks.size(); t-- > 0;) {
    int64_t longest = 0;
    for (int32_t s : tasks.SuccessorsOf(t)) {
      longest = std::max(longest, chain[static_cast<size_t>(s)]);
    }
    chain[t] = own(t) + longest;
  }
  return chain;
}

std::vector<int64_t> RemainingPath(const FlatTasks& tasks, std::span<const Nanos> durations) {
  return LongestChains(tasks, [&](size_t t) { return durations[t].value(); });
}

std::vector<int64_t> RemainingTasks(const FlatTasks& tasks, std::span<const Nanos>) {
  return LongestChains(tasks, [](size_t) { return int64_t{1}; });
}

constexpr Priority kPriorities[] = {
    {"remaining_path", "the longest time that the task and a chain behind it take goes first",
     RemainingPath},
    {"remaining_tasks", "the task with the longest chain of tasks behind it goes first",
     RemainingTasks},
};

}  // namespace

std::span<const Priority> Priorities() { return kPriorities; }

absl::StatusOr<const Priority*> PriorityNamed(absl::string_view name) {
  if (name.empty()) return &DefaultPriority();
  std::string names;
  for (const Priority& row : Priorities()) {
    if (row.name == name) return &row;
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  }
  return absl::NotFoundError(absl::StrCat("no priority is called '", name, "'; there are ", names));
}

}  // namespace partita

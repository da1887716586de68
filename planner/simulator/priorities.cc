#include "planner/simulator/priorities.h"

#include <algorithm>

#include "graph/support/known_names.h"
#include "graph/support/option.h"
#include "planner/simulator/urgency.h"

namespace partita {
namespace {

// The largest sum of `own(task)` over chains that begin with the task and go on along the edges
// (task, successor) that `follows` accepts.
template <class Own, class Follows>
std::vector<int64_t> LongestChains(const FlatTasks& tasks, Own&& own, Follows&& follows) {
  std::vector<int64_t> chain(tasks.size());
  for (size_t t = tasks.size(); t-- > 0;) {
    int64_t longest = 0;
    for (int32_t s : tasks.SuccessorsOf(t)) {
      const auto next = static_cast<size_t>(s);
      if (follows(t, next)) longest = std::max(longest, chain[next]);
    }
    chain[t] = own(t) + longest;
  }
  return chain;
}

bool Always(size_t, size_t) { return true; }

// The length by which the task counts in paths. Precondition: below 2^62.
int64_t Weighted(int64_t length, const FlatTasks& tasks, size_t task,
                 std::span<const int32_t> urgencies) {
  if (urgencies.empty() || tasks.subject_of.empty()) return length;
  const int64_t urgency = urgencies[static_cast<size_t>(tasks.subject_of[task])];
  return length / kEvenUrgency * urgency + length % kEvenUrgency * urgency / kEvenUrgency;
}

std::vector<int64_t> RemainingTasks(const FlatTasks& tasks, std::span<const Nanos>,
                                    std::span<const int32_t> urgencies) {
  return LongestChains(
      tasks, [&](size_t t) { return Weighted(kEvenUrgency, tasks, t, urgencies); }, Always);
}

// The longest path inside the task's subject, and behind it those of whole subjects: what changes
// inside one subject leaves all others' paths as they are.
std::vector<int64_t> LocalPath(const FlatTasks& tasks, std::span<const Nanos> durations,
                               std::span<const int32_t> urgencies) {
  std::vector<int64_t> path = LongestChains(
      tasks, [&](size_t t) { return Weighted(durations[t].value(), tasks, t, urgencies); },
      [&](size_t t, size_t next) { return tasks.AreOfOneSubject(t, next); });
  if (tasks.distances == nullptr) return path;
  std::vector<int64_t> lengths(static_cast<size_t>(tasks.distances->subjects()), 0);
  for (size_t t = 0; t < tasks.size(); ++t) {
    int64_t& length = lengths[static_cast<size_t>(tasks.subject_of[t])];
    length = std::max(length, path[t]);
  }
  const std::vector<int64_t> behind = tasks.distances->Behind(lengths);
  for (size_t t = 0; t < tasks.size(); ++t) {
    path[t] += behind[static_cast<size_t>(tasks.subject_of[t])];
  }
  return path;
}

constexpr Priority kPriorities[] = {
    {"local_path",
     "of all tasks that wait for a device, the one with the longest path left goes first: that "
     "among "
     "the tasks of its operator or tensor, and behind it those of whole operators and tensors",
     LocalPath, true},
    {"remaining_path",
     "of all tasks that wait for a device, the one with the longest time that it and a chain of "
     "tasks behind it take goes first",
     RemainingPaths},
    {"remaining_tasks",
     "of all tasks that wait for a device, the one with the longest chain of tasks behind it goes "
     "first",
     RemainingTasks},
    {"first_ready",
     "the task that has waited longest goes first; of those that got ready at the same time, the "
     "one "
     "of remaining_path",
     RemainingPaths, false, true},
};

}  // namespace

std::vector<int64_t> RemainingPaths(const FlatTasks& tasks, std::span<const Nanos> durations,
                                    std::span<const int32_t> urgencies) {
  return LongestChains(
      tasks, [&](size_t t) { return Weighted(durations[t].value(), tasks, t, urgencies); }, Always);
}

std::span<const Priority> Priorities() { return kPriorities; }

absl::StatusOr<const Priority*> PriorityNamed(absl::string_view name) {
  if (name.empty()) return &DefaultPriority();
  for (const Priority& row : Priorities()) {
    if (row.name == name) return &row;
  }
  return UnknownNameError("priority", name, NamesOf(Priorities()));
}

}  // namespace partita

#include "planner/simulator/priorities.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "planner/simulator/stable_order.h"

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

std::vector<int64_t> RemainingTasks(const FlatTasks& tasks, std::span<const Nanos>) {
  return LongestChains(tasks, [](size_t) { return int64_t{1}; }, Always);
}

// Numbers that order tasks as (major, minor) do, where both together do not fit 62 bits.
std::vector<int64_t> Ranks(const std::vector<int64_t>& major, const std::vector<int64_t>& minor) {
  std::vector<int32_t> order(major.size());
  std::iota(order.begin(), order.end(), 0);
  StableOrderBy(minor, order);
  StableOrderBy(major, order);
  std::vector<int64_t> ranks(major.size(), 0);
  for (size_t k = 1; k < order.size(); ++k) {
    const auto a = static_cast<size_t>(order[k - 1]), b = static_cast<size_t>(order[k]);
    ranks[b] = ranks[a] + (major[a] != major[b] || minor[a] != minor[b]);
  }
  return ranks;
}

std::vector<int64_t> LocalPath(const FlatTasks& tasks, std::span<const Nanos> durations) {
  std::vector<int64_t> path = LongestChains(
      tasks, [&](size_t t) { return durations[t].value(); },
      [&](size_t t, size_t next) { return tasks.AreOfOneSubject(t, next); });
  if (tasks.subject_of.empty()) return path;
  std::vector<int64_t> hops;
  hops.reserve(tasks.size());
  uint64_t longest = 0, farthest = 0;
  for (size_t t = 0; t < tasks.size(); ++t) {
    hops.push_back(tasks.hops[static_cast<size_t>(tasks.subject_of[t])]);
    longest = std::max(longest, static_cast<uint64_t>(path[t]));
    farthest = std::max(farthest, static_cast<uint64_t>(hops[t]));
  }
  const int bits = std::bit_width(longest);
  if (bits + std::bit_width(farthest) > 62) return Ranks(hops, path);
  for (size_t t = 0; t < tasks.size(); ++t) path[t] |= hops[t] << bits;
  return path;
}

constexpr Priority kPriorities[] = {
    {"local_path",
     "the task whose operator or tensor is farthest from the end of the graph goes first, then the "
     "one with the longest path left among the tasks of that",
     LocalPath, true},
    {"remaining_path", "the longest time that the task and a chain behind it take goes first",
     RemainingPaths},
    {"remaining_tasks", "the task with the longest chain of tasks behind it goes first",
     RemainingTasks},
    {"list_path",
     "of all tasks that wait for a device, the one with the longest time that it and a chain behind "
     "it take goes first, however long the others have waited",
     RemainingPaths, false, true},
    {"list_tasks",
     "of all tasks that wait for a device, the one with the longest chain of tasks behind it goes "
     "first, however long the others have waited",
     RemainingTasks, false, true},
};

}  // namespace

std::vector<int64_t> RemainingPaths(const FlatTasks& tasks, std::span<const Nanos> durations) {
  return LongestChains(tasks, [&](size_t t) { return durations[t].value(); }, Always);
}

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

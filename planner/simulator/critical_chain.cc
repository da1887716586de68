#include "planner/simulator/critical_chain.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace partita {
namespace {

// The task that each one waited for; -1: none.
std::vector<int32_t> FindAwaited(const FlatTasks& tasks, const Schedule& schedule,
                                 std::span<const std::pair<TaskId, TaskId>> waits) {
  std::vector<int32_t> awaited(tasks.size(), -1);
  const auto offer = [&](size_t task, int32_t before) {
    int32_t& last = awaited[task];
    if (before < 0 || before == static_cast<int32_t>(task)) return;
    const Nanos end = schedule.end[static_cast<size_t>(before)];
    if (last < 0 || end > schedule.end[static_cast<size_t>(last)]) last = before;
  };
  for (int32_t t : tasks.by_key) {
    for (int32_t next : tasks.SuccessorsOf(static_cast<size_t>(t))) {
      offer(static_cast<size_t>(next), t);
    }
  }
  std::vector<int32_t> last_on(static_cast<size_t>(tasks.resources), -1);
  for (TaskId task : OrderOf(tasks, schedule)) {
    for (int32_t r : tasks.ResourcesOf(task.index())) {
      offer(task.index(), last_on[static_cast<size_t>(r)]);
      last_on[static_cast<size_t>(r)] = task.value();
    }
  }
  for (const auto& [task, before] : waits) offer(task.index(), before.value());
  return awaited;
}

}  // namespace

std::vector<TaskId> CriticalChain(const FlatTasks& tasks, const Schedule& schedule,
                                  std::span<const std::pair<TaskId, TaskId>> waits) {
  std::vector<TaskId> chain;
  if (tasks.size() == 0) return chain;
  const std::vector<int32_t> awaited = FindAwaited(tasks, schedule, waits);
  const auto end_of = [&](int32_t task) { return schedule.end[static_cast<size_t>(task)]; };
  const auto last = std::max_element(tasks.by_key.begin(), tasks.by_key.end(),
                                     [&](int32_t a, int32_t b) { return end_of(a) < end_of(b); });
  for (int32_t task = *last; task >= 0; task = awaited[static_cast<size_t>(task)]) {
    chain.push_back(TaskId(task));
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

}  // namespace partita

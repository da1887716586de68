// List schedules are found by ListScheduler. By readiness tasks leave a heap in the order (ready,
// rank), rank being the place in the order (priority, key). A task enters when its last predecessor
// has been given its end. As every duration is positive, a task that enters is ready later than the
// one that let it in, so tasks leave in ascending order: each resource sees its tasks in the order in
// which it has to serve them, and the time at which it becomes free is all that must be kept of it.
#include "planner/simulator/simulator.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "graph/support/check.h"
#include "planner/simulator/list_schedule.h"
#include "planner/simulator/stable_order.h"
#include "planner/simulator/task_heap.h"

namespace partita {
namespace {

using Wide = unsigned __int128;

// Tasks by (priority, key).
std::vector<int32_t> ByPriority(const FlatTasks& tasks, std::vector<int64_t> priority) {
  int64_t most = 0;
  for (int64_t p : priority) most = std::max(most, p);
  for (int64_t& p : priority) p = most - p;
  std::vector<int32_t> order = tasks.by_key;
  StableOrderBy(priority, order);
  return order;
}

// The event loop by readiness. Heap keys are ready << rank_bits | rank.
template <class Key>
void RunEvents(const FlatTasks& tasks, std::span<const Nanos> durations,
               const std::vector<int32_t>& by_rank, Schedule& schedule) {
  const size_t n = tasks.size();
  const int rank_bits = std::bit_width(n);
  const Key rank_mask = (Key{1} << rank_bits) - 1;
  struct State {
    int64_t ready = 0;
    int32_t pending = 0;
    int32_t rank = 0;
  };
  std::vector<State> states(n);
  for (size_t r = 0; r < n; ++r)
    states[static_cast<size_t>(by_rank[r])].rank = static_cast<int32_t>(r);
  std::vector<int64_t> free_at(static_cast<size_t>(tasks.resources), 0);
  FourAryHeap<Key> heap;
  heap.Reserve(n);
  for (size_t t = 0; t < n; ++t) {
    states[t].pending = tasks.predecessor_count[t];
    if (states[t].pending == 0) heap.Push(static_cast<Key>(states[t].rank));
  }
  while (!heap.empty()) {
    const Key key = heap.Pop();
    const auto t = static_cast<size_t>(by_rank[static_cast<size_t>(key & rank_mask)]);
    int64_t start = static_cast<int64_t>(key >> rank_bits);
    const auto held = tasks.ResourcesOf(t);
    for (int32_t r : held) start = std::max(start, free_at[static_cast<size_t>(r)]);
    const int64_t end = start + durations[t].value();
    for (int32_t r : held) free_at[static_cast<size_t>(r)] = end;
    schedule.start[t] = Nanos(start);
    schedule.end[t] = Nanos(end);
    for (int32_t s : tasks.SuccessorsOf(t)) {
      State& state = states[static_cast<size_t>(s)];
      state.ready = std::max(state.ready, end);
      if (--state.pending == 0) {
        heap.Push(static_cast<Key>(state.ready) << rank_bits | static_cast<Key>(state.rank));
      }
    }
  }
}

// The tasks of a list schedule; keys are ranks.
class ListedTasks {
 public:
  ListedTasks(const FlatTasks& tasks, std::span<const Nanos> durations,
              const std::vector<int32_t>& by_rank, Schedule& schedule)
      : tasks_(tasks),
        durations_(durations),
        by_rank_(by_rank),
        schedule_(schedule),
        rank_(tasks.size()),
        pending_(tasks.predecessor_count) {
    for (size_t r = 0; r < by_rank.size(); ++r) rank_[static_cast<size_t>(by_rank[r])] = r;
  }

  uint64_t KeyOf(size_t task) const { return rank_[task]; }
  size_t TaskOf(uint64_t key) const { return static_cast<size_t>(by_rank_[key]); }
  std::span<const int32_t> ResourcesOf(size_t task) const { return tasks_.ResourcesOf(task); }
  int64_t DurationOf(size_t task) const { return durations_[task].value(); }
  bool Yields(size_t task) const { return tasks_.Yields(task); }
  template <class Visit>
  void ForEachSuccessor(size_t task, Visit&& visit) const {
    for (int32_t next : tasks_.SuccessorsOf(task)) visit(static_cast<size_t>(next));
  }
  bool Release(size_t task) { return --pending_[task] == 0; }
  bool Start(size_t task, int64_t time) {
    schedule_.start[task] = Nanos(time);
    schedule_.end[task] = Nanos(time) + durations_[task];
    return true;
  }

  // Fills in the schedule.
  template <class EndKey>
  void Run() {
    std::vector<char> is_lone(static_cast<size_t>(tasks_.resources), 1);
    for (size_t t = 0; t < tasks_.size(); ++t) {
      const auto held = ResourcesOf(t);
      if (held.size() == 1) continue;
      for (int32_t r : held) is_lone[static_cast<size_t>(r)] = 0;
    }
    ListScheduler<ListedTasks, EndKey> scheduler(
        *this, tasks_.size(), std::bit_width(by_rank_.size()), std::move(is_lone));
    for (size_t t = 0; t < tasks_.size(); ++t) {
      if (pending_[t] == 0) scheduler.Ready(t);
    }
    scheduler.Run();
  }

 private:
  const FlatTasks& tasks_;
  const std::span<const Nanos> durations_;
  const std::vector<int32_t>& by_rank_;
  Schedule& schedule_;
  std::vector<uint64_t> rank_;    // by task
  std::vector<int32_t> pending_;  // by task: predecessors without an end
};

int64_t CheckedSum(std::span<const Nanos> durations) {
  int64_t total = 0;
  for (Nanos duration : durations) {
    CHECK_GE(duration.value(), 1);
    CHECK(!__builtin_add_overflow(total, duration.value(), &total)) << "durations overflow";
  }
  return total;
}

// All times 0 but the busy time of resources.
Schedule EmptySchedule(const FlatTasks& tasks, std::span<const Nanos> durations) {
  const size_t n = tasks.size();
  CHECK_EQ(durations.size(), n);
  Schedule schedule;
  schedule.start.resize(n);
  schedule.end.resize(n);
  schedule.busy.resize(static_cast<size_t>(tasks.resources));
  for (size_t t = 0; t < n; ++t) {
    for (int32_t r : tasks.ResourcesOf(t)) schedule.busy[static_cast<size_t>(r)] += durations[t];
  }
  return schedule;
}

}  // namespace

Schedule Simulate(const FlatTasks& tasks, std::span<const Nanos> durations,
                  const Priority& priority, std::span<const int32_t> urgencies) {
  const size_t n = tasks.size();
  Schedule schedule = EmptySchedule(tasks, durations);
  const int64_t total = CheckedSum(durations);  // no end is later
  const std::vector<int32_t> by_rank = ByPriority(tasks, priority.of(tasks, durations, urgencies));
  const bool fits = std::bit_width(static_cast<uint64_t>(total)) + std::bit_width(n) <= 64;
  if (priority.by_readiness) {
    (fits ? RunEvents<uint64_t> : RunEvents<Wide>)(tasks, durations, by_rank, schedule);
  } else {
    ListedTasks listed(tasks, durations, by_rank, schedule);
    fits ? listed.Run<uint64_t>() : listed.Run<Wide>();
  }
  for (Nanos end : schedule.end) schedule.makespan = std::max(schedule.makespan, end);
  return schedule;
}

Schedule SimulateInOrder(const FlatTasks& tasks, std::span<const Nanos> durations,
                         std::span<const TaskId> order,
                         std::span<const std::pair<TaskId, TaskId>> waits) {
  CHECK_EQ(order.size(), tasks.size());
  CheckedSum(durations);
  Schedule schedule = EmptySchedule(tasks, durations);
  std::vector<Nanos> free_at(static_cast<size_t>(tasks.resources));
  std::vector<int32_t> wait_begin(tasks.size() + 1, 0);  // by task: its rows of waits
  for (const auto& [after, before] : waits) ++wait_begin[after.index() + 1];
  for (size_t t = 0; t < tasks.size(); ++t) wait_begin[t + 1] += wait_begin[t];
  for (TaskId id : order) {
    const size_t t = id.index();
    Nanos& start = schedule.start[t];  // holds the latest end of a predecessor so far
    for (int32_t w = wait_begin[t]; w < wait_begin[t + 1]; ++w) {
      const TaskId before = waits[static_cast<size_t>(w)].second;
      start = std::max(start, schedule.end[before.index()]);
    }
    for (int32_t r : tasks.ResourcesOf(t)) {
      start = std::max(start, free_at[static_cast<size_t>(r)]);
    }
    const Nanos end = start + durations[t];
    for (int32_t r : tasks.ResourcesOf(t)) free_at[static_cast<size_t>(r)] = end;
    for (int32_t s : tasks.SuccessorsOf(t)) {
      Nanos& ready = schedule.start[static_cast<size_t>(s)];
      ready = std::max(ready, end);
    }
    schedule.end[t] = end;
    schedule.makespan = std::max(schedule.makespan, end);
  }
  return schedule;
}

std::vector<TaskId> OrderOf(const FlatTasks& tasks, const Schedule& schedule) {
  std::vector<int64_t> starts;
  starts.reserve(tasks.size());
  for (Nanos start : schedule.start) starts.push_back(start.value());
  std::vector<int32_t> order = tasks.by_key;
  StableOrderBy(starts, order);
  std::vector<TaskId> ids;
  ids.reserve(order.size());
  for (int32_t t : order) ids.push_back(TaskId(t));
  return ids;
}

}  // namespace partita

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "planner/simulator/task_heap.h"

namespace partita {

// Lists of ContendedTasks, for one schedule after another.
struct ContendedState {
  std::vector<char> is_busy;                   // by resource
  std::vector<FourAryHeap<uint64_t>> waiting;  // by resource: keys of tasks that wait at it
  FourAryHeap<uint64_t> offered;               // keys of tasks that may start now
  // By task that is ready: the resource at which it waited, or -1; how often it could not start, up to
  // the most that counts.
  std::vector<int32_t> offered_by;
  std::vector<uint8_t> times_blocked;
  std::vector<int32_t> blocked;                // by resource: such tasks that are to hold it
  std::vector<std::vector<uint64_t>> yielded;  // by resource: keys of those that yield it to them
  // Queues of tasks that could not start so often and hold the same resources, by the place of the list
  // of these.
  struct Queue {
    size_t first = 0;              // the task that waits at a resource
    FourAryHeap<uint64_t> behind;  // keys, larger than its
  };
  absl::flat_hash_map<const int32_t*, Queue> queues;

  void Prepare(size_t resources, size_t tasks) {
    is_busy.assign(resources, 0);
    waiting.resize(resources);
    for (FourAryHeap<uint64_t>& heap : waiting) heap.Clear();
    offered.Clear();
    offered_by.resize(tasks);
    times_blocked.resize(tasks);
    blocked.assign(resources, 0);
    yielded.resize(resources);
    for (std::vector<uint64_t>& keys : yielded) keys.clear();
    queues.clear();
  }
};

// Tasks of a list schedule that may hold several resources, as Simulate defines it. A ready task waits at
// one resource that is busy: it cannot start before that is free. A resource that becomes free offers
// its waiting tasks one after another, as long as it stays free; tasks that are offered at one time are
// looked at in the order of their keys. A task that yields a resource is offered again when a task has
// held that. Of tasks that were looked at often and hold the same resources, in one list, one waits at a
// resource and the others behind it: where many wait for two resources each, all would be looked at
// whenever one of these is free.
//
// `Tasks` has
//   KeyOf(task), TaskOf(key): keys order tasks, the first one least;
//   ResourcesOf(task);
//   Yields(task): whether it yields, which tasks of a single resource never do.
template <class Tasks>
class ContendedTasks {
 public:
  // The state is prepared.
  ContendedTasks(Tasks& tasks, ContendedState& state) : tasks_(tasks), state_(state) {}

  // Makes a task known that waits for no other one any more.
  void Ready(size_t task) {
    state_.offered_by[task] = kNone;
    state_.times_blocked[task] = 0;
    state_.offered.Push(tasks_.KeyOf(task));
  }

  // Starts what can start now, with `start(task)`, which is false to end all: whether none was.
  template <class Start>
  bool StartOffered(Start&& start) {
    while (!state_.offered.empty()) {
      const uint64_t key = state_.offered.Pop();
      const size_t task = tasks_.TaskOf(key);
      const int32_t by = std::exchange(state_.offered_by[task], kNone);
      if (const int32_t busy = BusyResourceOf(task); busy != kNone) {
        Block(task);
        if (!QueueBehind(task, key)) state_.waiting[static_cast<size_t>(busy)].Push(key);
      } else if (const int32_t wanted = YieldedResourceOf(task); wanted != kNone) {
        state_.yielded[static_cast<size_t>(wanted)].push_back(key);
      } else {
        Occupy(task);
        if (!start(task)) return false;
      }
      if (by != kNone) Offer(by);
    }
    return true;
  }

  // Takes its resources from a task that has ended.
  void Free(size_t task) {
    const std::span<const int32_t> held = tasks_.ResourcesOf(task);
    for (int32_t r : held) state_.is_busy[static_cast<size_t>(r)] = 0;
    for (int32_t r : held) {
      std::vector<uint64_t>& yielded = state_.yielded[static_cast<size_t>(r)];
      for (uint64_t key : yielded) state_.offered.Push(key);
      yielded.clear();
      Offer(r);
    }
  }

 private:
  static constexpr int32_t kNone = -1;
  // Times after which a task that could not start waits with those that hold the same resources.
  static constexpr uint8_t kOften = 4;

  int32_t BusyResourceOf(size_t task) const {
    for (int32_t r : tasks_.ResourcesOf(task)) {
      if (state_.is_busy[static_cast<size_t>(r)] != 0) return r;
    }
    return kNone;
  }

  // Notes that the task could not start. Has its resources yielded to it, unless it yields them itself.
  void Block(size_t task) {
    uint8_t& times = state_.times_blocked[task];
    if (times == kOften || tasks_.Yields(task)) return;
    if (times++ > 0) return;
    for (int32_t r : tasks_.ResourcesOf(task)) ++state_.blocked[static_cast<size_t>(r)];
  }

  // Queues a task that could not start often behind another one, if that has a smaller key: whether it did.
  bool QueueBehind(size_t task, uint64_t key) {
    if (state_.times_blocked[task] < kOften) return false;
    const auto [queue, is_new] = state_.queues.try_emplace(tasks_.ResourcesOf(task).data());
    size_t& first = queue->second.first;
    if (is_new) first = task;
    if (first == task || key < tasks_.KeyOf(first)) return false;
    queue->second.behind.Push(key);
    return true;
  }

  // Has the next one of the task's queue wait at one of its resources, which are busy.
  void StartQueued(size_t task) {
    const auto resources = tasks_.ResourcesOf(task);
    const auto queue = state_.queues.find(resources.data());
    if (queue == state_.queues.end() || queue->second.first != task) return;
    auto& [first, behind] = queue->second;
    if (behind.empty()) {
      state_.queues.erase(queue);
      return;
    }
    const uint64_t next = behind.Pop();
    first = tasks_.TaskOf(next);
    state_.waiting[static_cast<size_t>(resources[0])].Push(next);
  }

  int32_t YieldedResourceOf(size_t task) const {
    if (!tasks_.Yields(task)) return kNone;
    for (int32_t r : tasks_.ResourcesOf(task)) {
      if (state_.blocked[static_cast<size_t>(r)] != 0) return r;
    }
    return kNone;
  }

  // Gives its resources to a task that may have been blocked.
  void Occupy(size_t task) {
    const auto resources = tasks_.ResourcesOf(task);
    const uint8_t times = std::exchange(state_.times_blocked[task], 0);
    if (times != 0) {
      for (int32_t r : resources) --state_.blocked[static_cast<size_t>(r)];
    }
    if (times == kOften) StartQueued(task);
    for (int32_t r : resources) state_.is_busy[static_cast<size_t>(r)] = 1;
  }

  // The first task that waits at the resource, if that is free.
  void Offer(int32_t resource) {
    FourAryHeap<uint64_t>& waiting = state_.waiting[static_cast<size_t>(resource)];
    if (state_.is_busy[static_cast<size_t>(resource)] != 0 || waiting.empty()) return;
    const uint64_t key = waiting.Pop();
    state_.offered_by[tasks_.TaskOf(key)] = resource;
    state_.offered.Push(key);
  }

  Tasks& tasks_;
  ContendedState& state_;
};

}  // namespace partita

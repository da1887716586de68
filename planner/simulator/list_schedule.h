#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planner/simulator/contended_tasks.h"
#include "planner/simulator/end_queue.h"
#include "planner/simulator/task_heap.h"

namespace partita {

// Finds a list schedule, as Simulate defines it. Resources whose tasks hold nothing else are *lone*: they
// serve theirs apart from all others, as no other task is in the way. The rest are ContendedTasks.
//
// `Tasks` has what ContendedTasks wants, and
//   DurationOf(task), ForEachSuccessor(task, visit);
//   Release(task): whether this was the last that it waited for;
//   Start(task, time): notes the start; false ends the schedule.
template <class Tasks, class EndKey>
class ListScheduler {
 public:
  // `tasks`: how many, of which each number takes `task_bits` bits. `is_lone`: by resource.
  ListScheduler(Tasks& tasks, size_t count, int task_bits, std::vector<char> is_lone)
      : tasks_(tasks),
        contended_(tasks, state_),
        is_lone_(std::move(is_lone)),
        waiting_(is_lone_.size()),
        is_busy_(is_lone_.size(), 0),
        is_to_serve_(is_lone_.size(), 0) {
    state_.Prepare(is_lone_.size(), count);
    running_.Prepare(count, task_bits);
  }
  ListScheduler(const ListScheduler&) = delete;
  ListScheduler& operator=(const ListScheduler&) = delete;

  // Makes a task known that waits for none any more. Before Run: those that wait for none at all.
  void Ready(size_t task) {
    if (!IsAlone(task)) {
      contended_.Ready(task);
      return;
    }
    const int32_t resource = tasks_.ResourcesOf(task)[0];
    waiting_[static_cast<size_t>(resource)].Push(tasks_.KeyOf(task));
    Serve(resource);
  }

  // False where Start was.
  bool Run() {
    int64_t now = 0;
    const auto start = [&](size_t task) { return Start(task, now); };
    while (StartAlone(now) && contended_.StartOffered(start)) {
      if (running_.empty()) return true;
      now = running_.first_end();
      running_.PopFirst([this](size_t task) { End(task); });
      for (size_t task : released_) Ready(task);
      released_.clear();
    }
    return false;
  }

 private:
  // Whether it holds a lone resource.
  bool IsAlone(size_t task) const {
    const std::span<const int32_t> held = tasks_.ResourcesOf(task);
    return held.size() == 1 && is_lone_[static_cast<size_t>(held[0])] != 0;
  }

  // Has a lone resource looked at when all that ends now has ended.
  void Serve(int32_t resource) {
    char& is_noted = is_to_serve_[static_cast<size_t>(resource)];
    if (is_noted == 0) to_serve_.push_back(resource);
    is_noted = 1;
  }

  bool StartAlone(int64_t now) {
    for (int32_t r : to_serve_) {
      const auto resource = static_cast<size_t>(r);
      is_to_serve_[resource] = 0;
      FourAryHeap<uint64_t>& waiting = waiting_[resource];
      if (is_busy_[resource] != 0 || waiting.empty()) continue;
      is_busy_[resource] = 1;
      if (!Start(tasks_.TaskOf(waiting.Pop()), now)) return false;
    }
    to_serve_.clear();
    return true;
  }

  bool Start(size_t task, int64_t now) {
    running_.Push(now + tasks_.DurationOf(task), task);
    return tasks_.Start(task, now);
  }

  void End(size_t task) {
    if (IsAlone(task)) {
      const int32_t resource = tasks_.ResourcesOf(task)[0];
      is_busy_[static_cast<size_t>(resource)] = 0;
      Serve(resource);
    } else {
      contended_.Free(task);
    }
    tasks_.ForEachSuccessor(task, [this](size_t next) {
      if (tasks_.Release(next)) released_.push_back(next);
    });
  }

  Tasks& tasks_;
  ContendedState state_;
  ContendedTasks<Tasks> contended_;
  EndQueue<EndKey> running_;
  std::vector<size_t> released_;  // tasks that wait for none since those ended that end now
  // By resource, of lone ones.
  std::vector<char> is_lone_;
  std::vector<FourAryHeap<uint64_t>> waiting_;  // keys of tasks that wait at it
  std::vector<char> is_busy_, is_to_serve_;
  std::vector<int32_t> to_serve_;  // lone resources that may have something to start, each once
};

}  // namespace partita

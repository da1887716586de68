#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/support/strong_int.h"
#include "graph/task/task_ids.h"

namespace partita {

// A buffer that a task reads or writes.
struct BufferUse {
  BufferId buffer;
  bool writes = false;
};

// Derives which tasks each task waits for, in the order of the tasks: a reader waits for the
// buffer's last writer, a writer for that and for the readers since, and every task for those that
// its control edges name.
class DependencyFinder {
 public:
  // Reserves for the expected number of tasks and buffers; both may grow.
  explicit DependencyFinder(size_t tasks = 0, size_t buffers = 0) : buffers_(buffers) {
    noted_.reserve(tasks);
  }

  void AddBuffer() { buffers_.emplace_back(); }
  // Adds buffers until there are so many, if there are fewer.
  void AddBuffers(size_t count) {
    if (buffers_.size() < count) buffers_.resize(count);
  }
  // Forgets all tasks. `used`: at least the buffers that they used.
  void Restart(std::span<const BufferId> used) {
    for (BufferId buffer : used) buffers_[buffer.index()] = {};
    noted_.clear();
    readers_.clear();
  }

  // Calls visit(before), once for each, for the tasks that the next one waits for. `uses`: each
  // buffer once among the reads and once among the writes. `after`: earlier tasks.
  template <class Visit>
  void NextTask(std::span<const BufferUse> uses, std::span<const TaskId> after, Visit&& visit) {
    const auto task = static_cast<int32_t>(noted_.size());
    noted_.push_back(-1);
    const auto wait_for = [&](int32_t before) {
      if (before < 0 || std::exchange(noted_[static_cast<size_t>(before)], task) == task) return;
      visit(TaskId(before));
    };
    for (TaskId before : after) wait_for(before.value());
    for (const BufferUse& use : uses) {
      const BufferState& buffer = buffers_[use.buffer.index()];
      wait_for(buffer.writer);
      if (!use.writes) continue;
      for (int32_t r = buffer.readers; r >= 0; r = readers_[static_cast<size_t>(r)].next) {
        wait_for(readers_[static_cast<size_t>(r)].task);
      }
    }
    for (const BufferUse& use : uses) {
      BufferState& buffer = buffers_[use.buffer.index()];
      if (use.writes) {
        buffer = {task, -1};
      } else {
        readers_.push_back({task, std::exchange(buffer.readers, NextReader())});
      }
    }
  }

 private:
  struct BufferState {
    int32_t writer = -1;   // the last
    int32_t readers = -1;  // readers since then: the last's place in readers_
  };
  struct Reader {
    int32_t task, next;
  };
  int32_t NextReader() const { return static_cast<int32_t>(readers_.size()); }

  std::vector<BufferState> buffers_;
  std::vector<int32_t> noted_;  // indexed by task: the task that waited for it last
  std::vector<Reader> readers_;
};

}  // namespace partita

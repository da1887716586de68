#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "graph/task/task_graph.h"
#include "graph/task/vector_clocks.h"

namespace partita {

// Partial order of tasks, when every lane runs its part of a total order and waits for
// dependencies: vector clocks over lanes.
class HappensBefore {
 public:
  // `order`: every task once, none before one that it depends on. `more_dependencies`: pairs (task,
  // task that must have ended before) that point backwards in the order too.
  HappensBefore(const TaskGraph& tasks, std::span<const TaskId> order,
                std::span<const std::pair<TaskId, TaskId>> more_dependencies);

  // Whether `a` has surely ended when `b` starts.
  bool Before(TaskId a, TaskId b) const { return Includes(clock_of_[b.index()], a); }

 private:
  // A lane of the task, and how many tasks run before it there.
  struct Place {
    size_t lane = 0;
    int32_t position = 0;
  };

  // Whether the clock counts the task among those that have ended.
  bool Includes(VectorClocks::Clock clock, TaskId task) const {
    const Place& place = places_[task.index()];
    return clocks_.At(clock, place.lane) > place.position;
  }
  VectorClocks::Clock Join(VectorClocks::Clock clock, TaskId before);

  VectorClocks clocks_;
  std::vector<Place> places_;
  // Indexed by task: for each lane how many of its tasks have surely ended when it starts.
  std::vector<VectorClocks::Clock> clock_of_;
};

// Runs the lanes: each starts its next task when all lanes of the task have come to it and its
// dependencies have ended. Internal, naming a task, if they come to a stop before the end.
absl::Status RunLanes(const TaskGraph& tasks, std::span<const TaskId> order,
                      std::span<const std::pair<TaskId, TaskId>> more_dependencies);

// The lanes of a task: 2 * device, plus 1 for communication.
std::vector<size_t> LanesOf(const Task& task);

}  // namespace partita

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_graph.h"
#include "graph/task/timeline.h"

namespace partita {

// The step that a timeline is of.
struct TimelineStep {
  const Graph& graph;
  const TaskGraph& tasks;
  const BufferAssignment* memory = nullptr;  // null: no memory is shown
  // How many devices, the first ones, have all their tasks here; memory is shown of these. 0: all.
  int whole_devices = 0;
  // Configuration of each operator for people, indexed by OpId; empty: none is shown.
  std::span<const std::string> splits = {};
  size_t most_arrows = 20'000;  // those of most bytes are kept
};

// Sets the details of a timeline of that step, but for the times.
//
// A kernel is of the part of the step of its first operator: backward are gradients and all that is
// computed from them, update what takes a weight's layout. A task of a tensor is of the part in
// which the tensor is made; those of weights, which are there before, are forward.
//
// Arrows go, for each task that reads on a device what a communication task has brought there, from
// the one of the sent values' makers on other devices that ended last: the one that was waited for.
//
// Memory in use is that of weights, states and scratch, and of every other buffer from the start of
// the first task that uses it to the end of the last, or of the step where the host reads it.
// Reached is the highest end of any of them so far: at last the peak of the assignment.
void AddDetails(const TimelineStep& step, Timeline& timeline);

// Set the durations that the entries have in a timeline of the same step, perhaps this one.
// InvalidArgument, with nothing set, if that has other tasks; `other_name` is what messages call it.
absl::Status AddPredicted(const Timeline& other, const std::string& other_name, Timeline& timeline);
absl::Status AddMeasured(const Timeline& other, const std::string& other_name, Timeline& timeline);

}  // namespace partita

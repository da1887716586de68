#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/support/strong_int.h"
#include "graph/task/task_graph.h"
#include "planner/evaluator.h"
#include "runtime/executor/executor.h"

namespace partita {

// Sources of a prediction: the parts of the predicted time of all tasks that were measured
// steadily, interpolated from measurements, computed from the machine's figures, or measured
// unsteadily. They add up to 1.
struct SourceShares {
  double measured = 0, interpolated = 0, roofline = 0, unsteady = 0;
};
SourceShares SharesOf(const EvaluatedStep& step);
// By what so many tasks are priced, and their parts of the time, but for what there is none of:
// "70 tasks by measurement (98 % of the time), 8 by roofline (2 %)".
std::string SourcesText(const SourceCounts& tasks, const SourceShares& shares);

// The tasks of a step that do the same work: kernels of one signature, moves, loads, collectives
// and transfers of one text.
struct TaskKindError {
  std::string kind;
  CostSource source = CostSource::kMeasured;
  int64_t tasks = 0;      // a task of several devices counts once for each
  int64_t predicted = 0;  // nanoseconds, summed over the tasks
  int64_t measured = 0;

  int64_t difference() const { return measured - predicted; }
};

// Differences of prediction and measurement, largest first: for each kind the sum over its tasks of
// the predicted duration and of the median measured one. `steps`: timelines of the same task graph.
// Communication times include waiting for the other devices.
std::vector<TaskKindError> TaskErrors(const EvaluatedStep& predicted,
                                      std::span<const std::vector<MeasuredInstruction>> steps);

}  // namespace partita

#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/task/task_graph.h"
#include "graph/task/timeline.h"
#include "runtime/executor/executor.h"

namespace partita {

// Timeline that an executor measured in a step (with ExecutorOptions::record_timeline), in the form
// of predictions: entries in task order, a task of several devices once for each, from the start of
// the step on, none shorter than 1 ns. `tasks` is the executor's, made from `graph`;
// `device_names`: by DeviceId.
Timeline MeasuredTimeline(const Graph& graph, const TaskGraph& tasks,
                          const std::vector<MeasuredInstruction>& measured, std::string title,
                          std::vector<std::string> device_names);

}  // namespace partita

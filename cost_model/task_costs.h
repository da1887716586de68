#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost_model/cost_model.h"
#include "graph/task/task_graph.h"

namespace partita {

// The price of one task. Compute: its kernel. Move: the sum of its moves. Load: a copy of what is
// delivered. The model knows every task (checked).
TaskCost PriceTask(const TaskGraph& graph, const Task& task, const CostModel& model);

// The price of a CollectiveTask or a TransferTask.
TaskCost PriceCommunication(const TaskBody& body, const CostModel& model);

// The price of every task, in the order of tasks(). Kernels of one signature on one device are
// asked for once. `communications`: the prices of all collectives and transfers, in their order,
// where they are known; else empty.
std::vector<TaskCost> PriceTasks(const TaskGraph& graph, const CostModel& model,
                                 std::span<const TaskCost> communications = {});

// The durations uncontended, as the simulator takes them.
std::vector<Nanos> DurationsOf(const std::vector<TaskCost>& costs);

// Number of prices from each source.
struct SourceCounts {
  int64_t measured = 0, interpolated = 0, roofline = 0, unsteady = 0;
  friend bool operator==(const SourceCounts&, const SourceCounts&) = default;
};
SourceCounts CountSources(const std::vector<TaskCost>& costs);

// Move that a load makes on the device: one contiguous copy.
MoveSignature SignatureOf(const TaskGraph& graph, const LoadTask& task);

}  // namespace partita

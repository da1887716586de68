#pragma once

#include <optional>
#include <random>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/task/task_graph.h"

namespace partita {

// Mistakes that a partitioner could make, planted into a correct task graph: to show that what
// compares or verifies plans finds them.

// A task graph taken apart. Dependencies are derived again when it is put together.
struct EditableTasks {
  explicit EditableTasks(const TaskGraph& graph);
  TaskGraph Build() const;

  int devices = 0;
  std::vector<Buffer> buffers;
  std::vector<KernelSignature> signatures;
  std::vector<Task> tasks;
  std::vector<HostOutput> outputs;
};

struct Fault {
  const char* name;
  const char* description;
  // Plants it at a random place among those whose results are used; false if there is none.
  bool (*plant)(const Graph& graph, EditableTasks& tasks, std::mt19937_64& random);
};

// THE table.
std::span<const Fault> PlantedFaults();

// A copy with the fault; nullopt if there is no place for it.
std::optional<TaskGraph> WithFault(const Fault& fault, const Graph& graph, const TaskGraph& tasks,
                                   std::mt19937_64& random);

}  // namespace partita

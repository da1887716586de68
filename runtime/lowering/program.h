#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_graph.h"

namespace partita {

// One device's side of a task.
struct Instruction {
  TaskId task;
  // Instructions on the device's other lane that must have ended, by task. Those of the same lane
  // run in order anyway; other devices are met only inside communication.
  std::vector<TaskId> waits;
  // Whether an instruction of the other lane waits for this one.
  bool signals = false;
};

struct DeviceProgram {
  std::vector<Instruction> compute, communication;
};

// Program of every device for one step: the task graph in one total order, with memory assigned.
struct Program {
  TaskGraph tasks;
  std::vector<TaskId> order;
  BufferAssignment memory;
  std::vector<DeviceProgram> devices;
};

// `order` must be a topological order of all tasks (the plan verifier has checked plans from
// files). InvalidArgument otherwise.
absl::StatusOr<Program> Lower(TaskGraph tasks, std::vector<TaskId> order, const MemorySizes& sizes);

// Readable listings: a device's instructions, and its buffers with offsets and lives.
std::string ProgramText(const Program& program, const Graph& graph, DeviceId device);
std::string BuffersText(const Program& program, const Graph& graph, DeviceId device);

}  // namespace partita

#include <algorithm>

#include "graph/partition/planned_step.h"
#include "graph/support/status_macros.h"
#include "graph/task/task_order.h"
#include "runtime/lowering/program.h"

namespace partita {
namespace {

bool Runs(const Task& task, DeviceId device) {
  const std::vector<DeviceId> devices = DevicesOf(task);
  return std::binary_search(devices.begin(), devices.end(), device);
}

}  // namespace

absl::StatusOr<Program> Lower(TaskGraph tasks, std::vector<TaskId> order,
                              const MemorySizes& sizes) {
  RETURN_IF_ERROR(CheckOrder(tasks, order));
  Program program{std::move(tasks), std::move(order), {}, {}};
  const TaskGraph& graph = program.tasks;
  program.memory = AssignBuffers(graph, program.order, sizes);
  std::vector<std::vector<TaskId>> dependencies(graph.tasks().size());
  for (const Task& task : graph.tasks()) dependencies[task.id.index()] = task.dependencies;
  for (const auto& [task, before] : program.memory.added_dependencies) {
    dependencies[task.index()].push_back(before);
  }
  program.devices.resize(static_cast<size_t>(graph.devices()));
  // Where each task's instruction is on a device: found by scanning back is too slow, so keep the
  // index.
  std::vector<std::vector<std::pair<DeviceId, size_t>>> place(graph.tasks().size());
  for (TaskId id : program.order) {
    const Task& task = graph.task(id);
    const bool communication = IsCommunication(task);
    for (DeviceId device : DevicesOf(task)) {
      DeviceProgram& own = program.devices[device.index()];
      auto& lane = communication ? own.communication : own.compute;
      auto& other = communication ? own.compute : own.communication;
      Instruction instruction{id, {}, false};
      for (TaskId before : dependencies[id.index()]) {
        const Task& earlier = graph.task(before);
        if (IsCommunication(earlier) == communication || !Runs(earlier, device)) continue;
        instruction.waits.push_back(before);
        for (const auto& [at, index] : place[before.index()]) {
          if (at == device) other[index].signals = true;
        }
      }
      std::sort(instruction.waits.begin(), instruction.waits.end());
      instruction.waits.erase(std::unique(instruction.waits.begin(), instruction.waits.end()),
                              instruction.waits.end());
      place[id.index()].emplace_back(device, lane.size());
      lane.push_back(std::move(instruction));
    }
  }
  return program;
}

}  // namespace partita

#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/task/task_graph.h"
#include "runtime/backend/kernel_arguments.h"
#include "runtime/serial/dense_tensor.h"

namespace partita {

// The meaning of a task graph, as code: one thread, one array per buffer, one task after another
// with the reference kernels. Persistent buffers keep their bytes between steps; all others hold
// garbage when a step starts, so a value that was never written shows. Every task is checked before
// it runs: devices, element types, extents of slices and windows (Internal, naming the task).
class TaskInterpreter {
 public:
  // `graph` is what `tasks` was made from; both outlive this object. It may be null if there are no
  // compute tasks.
  TaskInterpreter(const Graph* graph, const TaskGraph& tasks);

  // The bytes of one buffer.
  std::span<std::byte> bytes(BufferId id) { return storage_[id.index()]; }
  std::span<const std::byte> bytes(BufferId id) const { return storage_[id.index()]; }

  // Sets what the loader delivers for an input, the labels or the seed.
  void SetInput(TensorId id, DenseTensor value) { inputs_[id] = std::move(value); }
  // Every piece of a weight or state becomes its part of `value`.
  void SetPersistent(TensorId id, const DenseTensor& value);
  // A weight or state put together from all its pieces. DataLoss if an element is held nowhere, or
  // if copies differ, naming tensor, element and devices.
  absl::StatusOr<DenseTensor> Persistent(TensorId id) const;
  // A host output of the last step; NotFound.
  absl::StatusOr<DenseTensor> Output(TensorId id) const;

  // Runs all tasks in canonical order, or in the given one.
  absl::Status RunStep(const StepArguments& arguments);
  absl::Status RunStep(const StepArguments& arguments, std::span<const TaskId> order);

 private:
  absl::Status RunTask(const Task& task, const StepArguments& arguments);
  absl::Status Run(const ComputeTask& task, const StepArguments& arguments);
  absl::Status Run(const MoveTask& task, const StepArguments&);
  absl::Status Run(const LoadTask& task, const StepArguments&);
  absl::Status Run(const CollectiveTask& task, const StepArguments&);
  absl::Status Run(const TransferTask& task, const StepArguments&);

  absl::Status CheckSlice(const Slice& slice, DeviceId device, DType dtype) const;
  absl::Status CheckWindow(const BufferWindow& window, const Box& region, const MoveTask& task,
                           DType dtype) const;
  void Convert(const Move& move, const MoveTask& task);
  void Spoil(int64_t step);
  TensorArgument Argument(BufferId id, const Box& box, TensorId tensor);

  const Graph* graph_;
  const TaskGraph& tasks_;
  std::vector<std::vector<std::byte>> storage_;
  std::map<TensorId, DenseTensor> inputs_;
};

// A random order of all tasks that keeps their dependencies and nothing else.
std::vector<TaskId> RandomOrder(const TaskGraph& graph, std::mt19937_64& random);

}  // namespace partita

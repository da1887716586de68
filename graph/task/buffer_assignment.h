#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "graph/support/strong_int.h"
#include "graph/task/task_graph.h"

namespace partita {

// Sizes that a backend decides. Missing functions: dense buffers, no scratch.
struct MemorySizes {
  std::function<int64_t(const Buffer&)> buffer_bytes;
  std::function<int64_t(const KernelSignature&)> scratch_bytes;
};

// Static memory: where each buffer lies in its device's arena during a step.
struct BufferAssignment {
  std::vector<int64_t> offset;  // indexed by BufferId; -1 for buffers that no task touches
  std::vector<int64_t> bytes;   // indexed by BufferId
  // Size of each device's arena, and within it of the part that lives between steps.
  std::vector<Bytes> arena;
  std::vector<Bytes> persistent;
  // Size of the largest scratch of each device's kernels, allocated in addition to the arena. Peak
  // = arena + scratch.
  std::vector<Bytes> scratch;
  // Reuse of memory between lanes: (task, earlier task that must have ended). To be added to the
  // tasks' own dependencies; all point backwards in the order.
  std::vector<std::pair<TaskId, TaskId>> added_dependencies;

  Bytes peak(DeviceId device) const { return arena[device.index()] + scratch[device.index()]; }
  std::vector<Bytes> peaks() const;  // indexed by device
};

// All that the assignment looks at, as flat arrays. Rows of a list of task t are [begin[t],
// begin[t + 1]).
struct BufferUses {
  struct BufferFacts {
    int64_t bytes = 0;
    DeviceId device;
    Format format = Format::kDense;
    bool persistent = false;
    bool host_reads = false;  // true: the host reads it when the step has ended
  };
  // A kernel may write `to` over `from` if that dies in it. Earlier rows of a task go first; each
  // buffer takes part once.
  struct Overwrite {
    BufferId from, to;
  };
  struct Scratch {
    DeviceId device;
    int64_t bytes = 0;
  };

  int devices = 0;
  std::vector<BufferFacts> buffers;       // indexed by BufferId
  std::vector<uint8_t> is_communication;  // indexed by TaskId: 1 if so
  std::vector<int32_t> use_begin;
  std::vector<BufferUse> uses;  // buffers that a task reads, each once; then those that it writes
  std::vector<int32_t> overwrite_begin;
  std::vector<Overwrite> overwrites;
  std::vector<Scratch> scratch;  // scratch that some kernel on the device takes

  size_t tasks() const { return is_communication.size(); }
  std::span<const BufferUse> UsesOf(size_t task) const {
    return {uses.data() + use_begin[task], uses.data() + use_begin[task + 1]};
  }
  std::span<const Overwrite> OverwritesOf(size_t task) const {
    return {overwrites.data() + overwrite_begin[task],
            overwrites.data() + overwrite_begin[task + 1]};
  }
};

// Memory of each device if all buffers lay beside each other: no assignment takes more. And for those
// who find it bit by bit: adds buffers to the memory of their devices; raises the largest scratch.
std::vector<Bytes> MostMemoryOf(const BufferUses& uses);
void AddMemoryOf(std::span<const BufferUses::BufferFacts> buffers, std::vector<Bytes>& of_device);
void RaiseToScratch(std::span<const BufferUses::Scratch> scratch, std::vector<Bytes>& of_device);

BufferUses FindBufferUses(const TaskGraph& graph, const MemorySizes& sizes);

// Gives every buffer the lowest offset that is free when `order` (a topological order of all tasks)
// comes to its first use: on training steps within a few per cent of what is alive at once, in
// nearly linear time. Memory is free again where the order shows that its last users have ended: at
// a task that reads what they wrote, or that one of their lanes runs next. In an order by start times
// no task therefore starts later because it waits for memory. Kernels write over an input where they
// may, the input dies there and all else that read it has ended. The same function serves the memory
// model and the runtime, so predicted and allocated bytes are equal.
BufferAssignment AssignBuffers(const BufferUses& uses, std::span<const TaskId> order);
// BufferAssignment::peaks, for those who want nothing else of it.
std::vector<Bytes> PeaksOf(const BufferUses& uses, std::span<const TaskId> order);
BufferAssignment AssignBuffers(const TaskGraph& graph, std::span<const TaskId> order,
                               const MemorySizes& sizes);

}  // namespace partita

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/partition/windows.h"
#include "graph/task/task_graph.h"

namespace partita {

// Moves of one step of an exchange on their way into tasks, by phase (kSum, kPack, kUnpack): all
// those of a device and a microbatch become one task. Boxes that are passed outlive it.
class PendingMoves {
 public:
  // `outlines`: tasks are only priced (MoveTask::outline).
  PendingMoves(DType dtype, bool outlines) : dtype_(dtype), outlines_(outlines) {}

  // Task that a move goes to.
  struct Target {
    TaskKey::Phase phase;
    DeviceId device;
    int32_t microbatch = 0;
  };
  // Ends of moves.
  struct Ends {
    const FlowPlace &from, &to;
  };
  // Adds a move of each of the boxes; no copy from a buffer to itself.
  void Add(const Target& target, MoveSignature::Kind kind, const Ends& ends,
           std::span<const Box> boxes);
  // Adds the tasks of a phase by device and microbatch, with moves in the order in which they were
  // added. `key`: of the phase, with any devices.
  void Flush(const TaskKey& key, TaskGraphBuilder& builder);

 private:
  struct Pending {
    MoveSignature::Kind kind;
    WindowRef from, to;
    const Box* region;
  };
  // A task in the making: its moves or, where it is only priced, what they cost and use.
  struct Making {
    DeviceId device;
    int32_t microbatch = 0;
    int64_t number = 0;  // of all tasks so far
    int32_t next = -1;   // place of another one of the device
    std::vector<Pending> moves;
    std::vector<MoveOutline::Run> runs;
    std::vector<BufferId> reads, writes;  // each once
  };
  // The numbers of the tasks that a buffer was noted for last, indexed by BufferId; 0: none.
  using NotedFor = std::vector<int64_t>;
  struct Phase {
    std::vector<Making> tasks;  // those behind `size` have been flushed
    size_t size = 0;
    std::vector<int32_t> of_device;  // place of one of a device's tasks, indexed by DeviceId; or -1
    int64_t first_number = 1;        // numbers below are those of tasks that have been flushed
    NotedFor read_for, written_for;
  };

  static size_t NumberOf(TaskKey::Phase phase) {
    return phase == TaskKey::Phase::kSum ? 0 : phase == TaskKey::Phase::kPack ? 1 : 2;
  }
  Making& TaskOf(Phase& phase, const Target& target);
  void AddToOutline(Phase& phase, Making& task, MoveSignature::Kind kind, const Ends& ends,
                    std::span<const Box> boxes) const;
  MoveTask WholeTask(const Making& task) const;
  static MoveTask OutlinedTask(DType dtype, const Making& task);

  const DType dtype_;
  const bool outlines_;
  int64_t numbers_ = 0;             // of tasks so far
  std::array<Phase, 3> phases_;     // indexed by NumberOf(phase)
  std::vector<int32_t> by_device_;  // places of the tasks that are flushed
};

}  // namespace partita

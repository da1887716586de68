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
    DeviceId device;
    int32_t microbatch;
    MoveSignature::Kind kind;
    WindowRef from, to;
    const Box* region;
  };

  static size_t NumberOf(TaskKey::Phase phase) {
    return phase == TaskKey::Phase::kSum ? 0 : phase == TaskKey::Phase::kPack ? 1 : 2;
  }
  // Puts the numbers of the moves into by_task_, by device and microbatch.
  void OrderByTask(const std::vector<Pending>& moves);
  // The task of those of the moves that have these numbers.
  MoveTask WholeTask(std::span<const Pending> moves, std::span<const int32_t> numbers) const;
  MoveTask OutlinedTask(std::span<const Pending> moves, std::span<const int32_t> numbers);

  const DType dtype_;
  const bool outlines_;
  std::array<std::vector<Pending>, 3> moves_;  // indexed by NumberOf(phase)
  // Numbers of the moves of the phase that is flushed, and where those of each device begin.
  std::vector<int32_t> by_task_, begin_;
  // Parts of the outline at hand.
  std::vector<MoveOutline::Run> runs_;
  BufferList reads_, writes_;
};

}  // namespace partita

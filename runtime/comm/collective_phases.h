#pragma once

#include <span>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/collective/schedule.h"
#include "graph/task/task_graph.h"
#include "runtime/comm/shared_pieces.h"

namespace partita {

// Phases of one rank in a collective between processes, one after another.

// Rounds of messages.
struct MessagePhase {
  std::vector<RankRound> rounds;
};

// Rounds that concern ranks of this host among themselves, all at once on the buffers of all ranks.
struct SharedPhase {
  std::vector<int> members;  // ranks of the group, ascending; this one is among them
  std::vector<int> peers;    // their devices
  // Pieces of this rank, in place; indexed by slice, over the ranks' addresses of that slice.
  std::vector<SharedPieces> pieces;
  std::vector<CollectiveStep> steps;  // all-to-all: what this rank takes from others and itself
};

using CollectivePhase = std::variant<MessagePhase, SharedPhase>;

// The phases of `rank` of the task's group. `sharing`: the devices whose memory this rank reaches.
// NotFound or InvalidArgument from BuildSchedule.
absl::StatusOr<std::vector<CollectivePhase>> PhasesOf(const CollectiveTask& task, int rank,
                                                      std::span<const int> sharing);

}  // namespace partita

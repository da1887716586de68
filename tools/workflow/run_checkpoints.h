#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/train/checkpoint_family.h"
#include "runtime/train/periodic_checkpoints.h"
#include "runtime/train/training_state.h"
#include "tools/workflow/running.h"

namespace partita {

// State that a run starts from, the same on all ranks, and the checkpoints that it writes on its
// way.
struct RunStart {
  TrainingState state;
  std::unique_ptr<PeriodicCheckpoints> checkpoints;  // null: none, or another rank writes them
};

// Initial values, or what `load` or `resume` say, as rank 0 reads them. The same error on all
// ranks.
absl::StatusOr<RunStart> StartRun(const Graph& graph, const RunRequest& request);

// Writes `save`, or where `outcome` is a failure what stands for it; the error of a failure then
// says so. Collective, but only rank 0 writes. Errors of writing `save`.
absl::Status SaveEnd(const Graph& graph, const RunRequest& request, Trainer& trainer,
                     RunOutcome& outcome);

}  // namespace partita

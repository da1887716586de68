#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/training_state.h"

// The checkpoints that one run leaves, all in the folder of its NAME:
//   NAME               the state in which it ended or was interrupted
//   NAME.step-000100   that after step 100, one of those that it wrote during the run
//   NAME.best          the one of the best metric
//   NAME.failed        the state that a failed run had reached; resumed from only on request

namespace partita {

std::string StepCheckpointPath(const std::string& name, int64_t step);
std::string BestCheckpointPath(const std::string& name);
std::string FailedStatePath(const std::string& name);

struct StepCheckpoint {
  int64_t step = 0;  // step in its name
  std::string path;
};
// Checkpoints of NAME, by step. Errors of reading the folder.
absl::StatusOr<std::vector<StepCheckpoint>> StepCheckpoints(const std::string& name);

// Removes the step checkpoints of NAME before step `newest` but for the `keep` - 1 newest of them;
// those of later steps stay. What cannot be removed is named by the error; the rest is done.
absl::Status RemoveOldCheckpoints(const std::string& name, int64_t newest, int64_t keep);

// A file that cannot be resumed from.
struct UnusableCheckpoint {
  std::string path, why;
};

// The start of a run that resumes.
struct ResumePoint {
  std::string path;
  TrainingState state;
  std::vector<UnusableCheckpoint> passed_over;  // checkpoints of later steps, or of unknown ones
};

// Finds the checkpoint to resume from. `where` is NAME, whose whole checkpoint of the latest step
// is taken; or a folder with the checkpoints of one NAME; or one checkpoint. Where nothing can be
// taken: NotFound if there is nothing, InvalidArgument with what is wrong with each, and for a
// folder with several NAMEs.
absl::StatusOr<ResumePoint> FindResumePoint(const std::string& where, const Graph& graph);

// Checkpoints that a run writes: on its way and at the end, or at the end only.
enum class CheckpointTimes : uint8_t { kOnTheWay, kAtTheEnd };

// OK if a run that begins at `from` (null: at step 0) may write checkpoints of NAME: none are there
// but those that it goes on from, and no file can be taken for a later one of this run. Otherwise
// UsageError. What the run has passed over counts for nothing, nor does NAME itself where that is
// all that it writes.
absl::Status CheckFamilyIsFree(const std::string& name, const Graph& graph, const ResumePoint* from,
                               CheckpointTimes times = CheckpointTimes::kOnTheWay);

}  // namespace partita

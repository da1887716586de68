#include "tools/workflow/run_checkpoints.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "runtime/train/checkpoint.h"

namespace partita {
namespace {

// Whether checkpoints can be kept in the folder of `save`: not where it is a device or a pipe.
bool HasFamily(const std::string& save) {
  std::error_code error;
  const auto type = std::filesystem::status(save, error).type();
  return type == std::filesystem::file_type::regular ||
         type == std::filesystem::file_type::not_found;
}

absl::StatusOr<ResumePoint> Resume(const Graph& graph, const RunRequest& request) {
  ASSIGN_OR_RETURN(ResumePoint point, FindResumePoint(request.resume, graph));
  if (point.state.seed == request.init_seed.value_or(point.state.seed)) return point;
  return absl::InvalidArgumentError(absl::StrCat(
      point.path, " is a checkpoint of a run of seed ", point.state.seed, "; wanted is seed ",
      *request.init_seed, ". Leave --init_seed away, or start anew from its weights with --load"));
}

absl::StatusOr<std::unique_ptr<PeriodicCheckpoints>> OpenCheckpoints(const Graph& graph,
                                                                     const RunRequest& request,
                                                                     const ResumePoint* from) {
  if (request.save_every_steps == 0 && request.save_every_seconds == 0) {
    if (request.save.empty() || !HasFamily(request.save)) return nullptr;
    RETURN_IF_ERROR(CheckFamilyIsFree(request.save, graph, from, CheckpointTimes::kAtTheEnd));
    return nullptr;
  }
  if (!HasFamily(request.save)) {
    return UsageError(absl::StrCat("--save_every writes files beside '", request.save,
                                   "', which is no file; --save one"));
  }
  RETURN_IF_ERROR(CheckFamilyIsFree(request.save, graph, from));
  PeriodicCheckpoints::Options options;
  options.schedule = {.name = request.save,
                      .every_steps = request.save_every_steps,
                      .every_seconds = request.save_every_seconds,
                      .keep = request.keep};
  options.evaluates = !request.eval_data.empty();
  if (request.on_checkpoint) options.on_report = request.on_checkpoint;
  if (from != nullptr) {
    options.start = from->state.step;
    const std::string best = BestCheckpointPath(request.save);
    if (LoadCheckpoint(best, graph).ok()) {
      ASSIGN_OR_RETURN(const CheckpointSummary summary, ReadCheckpointSummary(best, graph));
      options.best = summary.metric;
    }
  }
  return std::make_unique<PeriodicCheckpoints>(graph, std::move(options));
}

absl::StatusOr<RunStart> StartAlone(const Graph& graph, const RunRequest& request) {
  RunStart start;
  std::optional<ResumePoint> from;
  if (request.resume.empty()) {
    ASSIGN_OR_RETURN(start.state, InitialState(graph, request.init_seed.value_or(0)));
    if (!request.load.empty()) RETURN_IF_ERROR(LoadWeights(request.load, graph, start.state));
  } else {
    ASSIGN_OR_RETURN(from, Resume(graph, request));
    if (request.on_resume) request.on_resume(*from);
  }
  ASSIGN_OR_RETURN(start.checkpoints,
                   OpenCheckpoints(graph, request, from.has_value() ? &*from : nullptr));
  if (from.has_value()) start.state = std::move(from->state);
  return start;
}

// Rank 0's state, on every rank.
absl::Status BroadcastState(MessagePort& port, TrainingState& state) {
  int64_t numbers[] = {state.step, state.position.epoch, state.position.batch, state.samples,
                       static_cast<int64_t>(state.seed)};
  RETURN_IF_ERROR(Broadcast(port, 0, numbers, sizeof numbers));
  state.step = numbers[0];
  state.position = {numbers[1], numbers[2]};
  state.samples = numbers[3];
  state.seed = static_cast<uint64_t>(numbers[4]);
  for (std::vector<std::byte>& values : state.values) {
    if (values.empty()) continue;
    RETURN_IF_ERROR(Broadcast(port, 0, values.data(), static_cast<int64_t>(values.size())));
  }
  return absl::OkStatus();
}

// What a failed run says of its state, after that has been written if it could be.
std::string KeepFailed(const Graph& graph, const std::string& save, Trainer& trainer) {
  const std::string path = FailedStatePath(save);
  if (!HasFamily(save)) return absl::StrCat("the state is not kept: '", save, "' is no file");
  const absl::StatusOr<TrainingState> state = trainer.State();
  const absl::Status written = state.ok() ? SaveCheckpoint(path, graph, *state) : state.status();
  if (!written.ok()) return absl::StrCat("the state could not be kept: ", written.message());
  return absl::StrCat("'", save, "' is not touched; the last good state, after step ", state->step,
                      ", is in '", path, "'");
}

}  // namespace

absl::StatusOr<RunStart> StartRun(const Graph& graph, const RunRequest& request) {
  if (request.ranks == nullptr) return StartAlone(graph, request);
  MessagePort& port = request.ranks->port();
  RunStart start;
  absl::Status status;
  if (request.ranks->is_rank0()) {
    absl::StatusOr<RunStart> own = StartAlone(graph, request);
    status = own.status();
    if (own.ok()) start = *std::move(own);
  } else {
    ASSIGN_OR_RETURN(start.state, InitialState(graph, request.init_seed.value_or(0)));
  }
  RETURN_IF_ERROR(request.ranks->FromRank0(status));
  if (!request.resume.empty() || !request.load.empty()) {
    RETURN_IF_ERROR(BroadcastState(port, start.state));
  }
  return start;
}

absl::Status SaveEnd(const Graph& graph, const RunRequest& request, Trainer& trainer,
                     RunOutcome& outcome) {
  if (request.save.empty()) return absl::OkStatus();
  const bool ends = outcome.status.ok() || IsInterrupted(outcome.status);
  if (ends) {
    const absl::StatusOr<TrainingState> end = trainer.State();
    if (end.ok()) {
      if (request.ranks != nullptr && !request.ranks->is_rank0()) return absl::OkStatus();
      RETURN_IF_ERROR(SaveCheckpoint(request.save, graph, *end));
      outcome.written.push_back(request.save);
      return absl::OkStatus();
    }
    outcome.status = end.status();
  }
  if (request.ranks != nullptr) return absl::OkStatus();  // the others may be gone
  outcome.status = WithMessage(
      outcome.status,
      absl::StrCat(outcome.status.message(), "; ", KeepFailed(graph, request.save, trainer)));
  return absl::OkStatus();
}

}  // namespace partita

#include "runtime/train/trainer.h"

#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/clock.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/support/finite.h"

namespace partita {
Trainer::Trainer(const Graph& graph, Executor& executor, Training training)
    : graph_(graph),
      executor_(executor),
      data_(std::move(training.data)),
      options_(std::move(training.options)),
      evaluation_(std::move(training.evaluation)),
      snapshot_(std::move(training.start)) {
  now_.step = snapshot_.step;
  now_.position = snapshot_.position;
  now_.seed = snapshot_.seed;
  finite_step_ = now_.step;
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const Graph& graph, Executor& executor,
                                                         Training training) {
  const TrainerOptions& options = training.options;
  RETURN_IF_ERROR(CheckSourceFits(*training.data.source, graph));
  if (const absl::Status finite = CheckFinite(graph, training.start); !finite.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot train from this state: ", finite.message(), ". Start from other weights"));
  }
  if (training.evaluation.evaluation != nullptr) {
    RETURN_IF_ERROR(CheckSourceFits(*training.evaluation.data.source, graph));
  }
  const bool has_length = (options.steps > 0) != (options.epochs > 0);
  const bool evaluates = options.only_evaluates() && training.evaluation.evaluation != nullptr;
  if (options.steps < 0 || options.epochs < 0 || (!has_length && !evaluates)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot train for ", options.steps,
                                                   " steps and ", options.epochs,
                                                   " epochs; give a positive number of either"));
  }
  if (options.snapshot_every < 1 || options.evaluate_every < 0) {
    return absl::InvalidArgumentError("steps between snapshots or evaluations are not positive");
  }
  std::unique_ptr<Trainer> trainer(new Trainer(graph, executor, std::move(training)));
  const TaskGraph& tasks = executor.program().tasks;
  const auto loss = OutputIndex(tasks, graph.only(TensorRole::kLoss));
  if (!loss.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph ", graph.name(), " is not a training graph: it has no loss"));
  }
  trainer->loss_output_ = *loss;
  trainer->correct_output_ = OutputIndex(tasks, graph.only(TensorRole::kCorrect));
  RETURN_IF_ERROR(trainer->CompleteData());
  RETURN_IF_ERROR(WriteValues(graph, trainer->snapshot_, executor));
  return trainer;
}

// Fills in what the data, the graph and the state say of each other, and the last step.
absl::Status Trainer::CompleteData() {
  const int64_t size = data_.source->size();
  const bool trains = !options_.only_evaluates();
  if (trains && snapshot_.samples != 0 && snapshot_.samples != size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the state is at batch ", now_.position.batch, " of epoch ", now_.position.epoch, " of ",
        snapshot_.samples, " samples; found are ", size, ": ", data_.source->Describe(),
        ". Resume on the data that the run began with, or start anew from its weights"));
  }
  if (trains) snapshot_.samples = size;
  data_.loader.seed = snapshot_.seed;
  data_.loader.batch_size = graph_.batch();
  data_.loader.epochs = 0;
  data_.loader.last_batch = LastBatch::kDrop;
  data_.loader.memory = executor_.batch_memory();
  const int64_t per_epoch = size / graph_.batch();
  end_step_ = options_.steps > 0 ? options_.steps : options_.epochs * per_epoch;
  if (per_epoch > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(data_.source->Describe(), " has ", size,
                                                 " samples; a batch takes ", graph_.batch()));
}

absl::StatusOr<std::unique_ptr<BatchLoader>> Trainer::OpenLoader(LoaderPosition position) const {
  return BatchLoader::Create(data_.source, data_.loader, position);
}

absl::Status Trainer::Run() {
  const Doing doing("training");
  ASSIGN_OR_RETURN(const auto loader, OpenLoader(now_.position));
  while (now_.step < end_step_) {
    ASSIGN_OR_RETURN(const Orders orders, OrdersHere());
    if (orders.save != 0) RETURN_IF_ERROR(WriteCheckpoint());
    if (orders.stop != 0) {
      return InterruptedError(
          absl::StrCat("interrupted after step ", now_.step, " of ", end_step_));
    }
    RETURN_IF_ERROR(TrainOneStep(*loader));
    if (now_.step % options_.snapshot_every == 0) RETURN_IF_ERROR(Snapshot());
    const bool evaluate = options_.evaluate_every > 0 && now_.step % options_.evaluate_every == 0;
    if (evaluate && now_.step < end_step_) RETURN_IF_ERROR(Evaluate());
  }
  RETURN_IF_ERROR(CheckState());
  RETURN_IF_ERROR(Evaluate());
  ASSIGN_OR_RETURN(const Orders orders, OrdersHere());
  return orders.save != 0 ? WriteCheckpoint() : absl::OkStatus();
}

absl::StatusOr<Trainer::Orders> Trainer::OrdersHere() const {
  PeriodicCheckpoints* const checkpoints = options_.checkpoints;
  Orders orders;
  orders.stop = IsSet(options_.stop) ? 1 : 0;
  orders.save = checkpoints != nullptr && checkpoints->Due(now_.step) ? 1 : 0;
  if (options_.port != nullptr) {
    RETURN_IF_ERROR(Broadcast(*options_.port, 0, &orders, sizeof orders));
  }
  return orders;
}

// All ranks read the state, one has checkpoints.
absl::Status Trainer::WriteCheckpoint() {
  if (snapshot_.step != now_.step) RETURN_IF_ERROR(Snapshot());
  if (options_.checkpoints != nullptr) options_.checkpoints->Save(snapshot_);
  return absl::OkStatus();
}

absl::Status Trainer::TrainOneStep(BatchLoader& loader) {
  NextBatch next = ahead_.has_value() ? *std::exchange(ahead_, std::nullopt) : Take(loader);
  RETURN_IF_ERROR(next.batch.status());
  Batch batch = *std::move(next.batch);
  if (executor_.Stages() && now_.step + 1 < end_step_) {
    ahead_ = Take(loader);
    next.waited_ns += ahead_->waited_ns;
    ahead_->waited_ns = 0;
    if (const auto& ahead = ahead_->batch; ahead.ok()) {
      executor_.Stage(SamplesOf(*ahead, graph_), LabelsOf(*ahead));
    }
  }
  if (options_.record_timeline) {
    const bool last = now_.step + 1 == end_step_;
    executor_.RecordTimeline(metrics_.steps() == 0 || last || !executor_.CanReplay().ok());
  }
  ASSIGN_OR_RETURN(StepResult result, RunBatch(batch, now_.step));
  const double loss = LossOf(result);
  if (!std::isfinite(loss)) {
    return TraceNotFinite(absl::StrCat("the loss is ", loss, " in step ", now_.step),
                          now_.step + 1);
  }
  ++now_.step;
  now_.position = next.after;
  Report(batch, std::move(result), next.waited_ns);
  loader.Recycle(std::move(batch));
  return absl::OkStatus();
}

Trainer::NextBatch Trainer::Take(BatchLoader& loader) {
  const int64_t start = SteadyNow();
  NextBatch next{loader.Next(), loader.position()};
  next.waited_ns = SteadyNow() - start;
  return next;
}

absl::StatusOr<StepResult> Trainer::RunBatch(const Batch& batch, int64_t step) {
  StepArguments arguments = options_.arguments;
  arguments.step = step;
  arguments.seed = now_.seed;
  auto result = executor_.Step(SamplesOf(batch, graph_), LabelsOf(batch), arguments);
  if (!result.ok()) devices_good_ = false;
  return result;
}

void Trainer::Report(const Batch& batch, StepResult result, int64_t waited_ns) {
  StepReport report{.step = now_.step,
                    .steps = end_step_,
                    .epoch = batch.epoch,
                    .images = graph_.batch(),
                    .loss = LossOf(result),
                    .accuracy = std::nan(""),
                    .wall_ns = result.wall_ns,
                    .waited_ns = waited_ns,
                    .read_ns = batch.read_ns,
                    .staged = result.staged,
                    .replayed = result.replayed};
  if (correct_output_.has_value()) {
    report.accuracy = result.outputs[*correct_output_] / static_cast<double>(batch.labels.size());
  }
  if (!result.timeline.empty()) timeline_ = std::move(result.timeline);
  metrics_.Add(report);
  if (options_.checkpoints != nullptr) options_.checkpoints->AddLoss(report.loss);
  if (options_.on_step) options_.on_step(report);
}

absl::Status Trainer::Snapshot() {
  RETURN_IF_ERROR(CheckState());
  if (const absl::Status copies = executor_.CheckCopies(); !copies.ok()) {
    devices_good_ = false;
    return absl::InternalError(absl::StrCat("after step ", now_.step, ": ", copies.message()));
  }
  snapshot_.step = now_.step;
  snapshot_.position = now_.position;
  return ReadValues(graph_, executor_, snapshot_);
}

absl::StatusOr<TrainingState> Trainer::State() {
  if (devices_good_ && snapshot_.step != now_.step) RETURN_IF_ERROR(Snapshot());
  return snapshot_;
}

absl::Status Trainer::Evaluate() {
  if (evaluation_.evaluation == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const TrainingState state, State());
  ASSIGN_OR_RETURN(last_evaluation_, evaluation_.evaluation->Run(
                                         state, evaluation_.data.source, evaluation_.data.loader,
                                         options_.port == nullptr ? options_.stop : nullptr));
  if (options_.checkpoints != nullptr) options_.checkpoints->AddEvaluation(*last_evaluation_);
  if (options_.on_evaluation) options_.on_evaluation(now_.step, *last_evaluation_);
  return absl::OkStatus();
}

absl::Status Trainer::CheckState() {
  if (finite_step_ == now_.step) return absl::OkStatus();
  const absl::Status status = executor_.CheckValues(UpdatedTensors(graph_));
  if (absl::IsOutOfRange(status)) {
    return TraceNotFinite(absl::StrCat("after step ", now_.step, " ", status.message()), now_.step);
  }
  if (status.ok()) finite_step_ = now_.step;
  return status;
}

absl::Status Trainer::TraceNotFinite(const std::string& what, int64_t steps) {
  const int64_t from = snapshot_.step;
  const absl::Status found = RepeatChecked(steps);
  executor_.CheckFinite(false);
  devices_good_ = false;  // their contents are invalid; the snapshot is valid
  const absl::string_view why = found.message();
  if (absl::IsOutOfRange(found)) return NotFiniteError(absl::StrCat(what, ": ", why));
  return NotFiniteError(absl::StrCat(
      what, "; where it arose is unknown: trained again from step ", from, ", ",
      found.ok() ? "all values were finite. Kernels that give other values in each run do that"
                 : why));
}

// From the snapshot, which follows, until a value is not finite.
absl::Status Trainer::RepeatChecked(int64_t steps) {
  RETURN_IF_ERROR(WriteValues(graph_, snapshot_, executor_));
  now_.step = snapshot_.step;
  now_.position = snapshot_.position;
  ASSIGN_OR_RETURN(const auto loader, OpenLoader(now_.position));
  executor_.CheckFinite(true);
  while (now_.step < steps) {
    ASSIGN_OR_RETURN(const Orders orders, OrdersHere());
    if (orders.stop != 0) return InterruptedError("interrupted");
    ASSIGN_OR_RETURN(Batch batch, loader->Next());
    RETURN_IF_ERROR(CheckBatch(batch));
    const auto result = RunBatch(batch, now_.step);
    if (absl::IsOutOfRange(result.status())) {
      return NotFiniteError(absl::StrCat("in step ", now_.step, " (counted from 0) ",
                                         result.status().message(),
                                         "; try a lower learning rate, and look at the data"));
    }
    RETURN_IF_ERROR(result.status());
    ++now_.step;
    now_.position = loader->position();
    loader->Recycle(std::move(batch));
    snapshot_.step = now_.step;
    snapshot_.position = now_.position;
    RETURN_IF_ERROR(ReadValues(graph_, executor_, snapshot_));
  }
  return absl::OkStatus();
}

absl::Status Trainer::CheckBatch(const Batch& batch) const {
  const int64_t at = FirstNotFinite(std::span<const float>(batch.x));
  if (at < 0) return absl::OkStatus();
  const int64_t elements = static_cast<int64_t>(batch.x.size()) / graph_.batch();
  TensorId input;
  for (TensorId id : graph_.tensors(TensorRole::kSamples)) {
    if (graph_.FirstRowOf(id) <= at / elements) input = id;
  }
  return NotFiniteError(absl::StrCat(
      "in step ", now_.step, " (counted from 0) the data hold ", batch.x[static_cast<size_t>(at)],
      ": element ", at % elements, " of sample ", batch.samples[static_cast<size_t>(at / elements)],
      " (", at / elements, " of batch ", batch.index, " of epoch ", batch.epoch,
      "), which tensor '", graph_.tensor(input).name, "' takes from ", data_.source->Describe(),
      "; correct or leave out that sample"));
}

}  // namespace partita

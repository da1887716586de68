#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "graph/support/error_category.h"
#include "graph/support/exceptions.h"
#include "graph/support/file.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/communicators.h"
#include "runtime/launch/failure_channel.h"
#include "runtime/launch/rank_environment.h"
#include "runtime/support/run_key.h"
#include "runtime/train/data/idx.h"
#include "runtime/train/data/open_data_source.h"
#include "tools/cli/flags.h"
#include "tools/cli/notes.h"
#include "tools/cli/process.h"
#include "tools/cli/progress.h"
#include "tools/cli/staging.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/version.h"
#include "tools/workflow/launching.h"
#include "tools/workflow/machine_notes.h"
#include "tools/workflow/output_path.h"
#include "tools/workflow/plan_precision.h"
#include "tools/workflow/ranks.h"
#include "tools/workflow/running.h"

namespace partita {
namespace {

// Beside the plan, if that is a place to write to, where the user did not say. Of several ranks the
// one that writes decides.
absl::Status SetTimeline(RunFlags& flags) {
  std::string& path = flags.request.timeline;
  if (path == "none") {
    path.clear();
  } else if (path.empty() && !IsStream(flags.plan)) {
    path = flags.plan + ".measured.json";
    flags.default_timeline = true;
    const absl::Status writable = CheckWritable(path, "--timeline");
    bool wanted = writable.ok();
    if (flags.request.ranks != nullptr) {
      ASSIGN_OR_RETURN(wanted, flags.request.ranks->FromRank0(wanted));
    }
    if (wanted) return absl::OkStatus();
    path.clear();
    flags.notes.push_back(absl::StrCat("no measured timeline: ", writable.message()));
  }
  return absl::OkStatus();
}

// Names samples that were left out on stderr, each once: the first ones, then how many more.
class SkippedSamples {
 public:
  // May be called by any thread.
  void Add(absl::string_view error) {
    const std::lock_guard lock(mutex_);
    const auto [found, added] = errors_.emplace(error);
    if (added && errors_.size() <= kNamed) to_print_.push_back(*found);
  }
  // What was added since. By the thread that shows progress, as is the next.
  void Print() {
    const std::lock_guard lock(mutex_);
    for (const std::string& error : to_print_) Say(absl::StrCat("skipped: ", error));
    to_print_.clear();
  }
  void PrintAll() {
    Print();
    if (count() <= kNamed) return;
    Say(absl::StrCat("skipped: ", count() - kNamed, " more broken samples"));
  }
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return errors_.size();
  }

 private:
  static constexpr size_t kNamed = 10;
  mutable std::mutex mutex_;
  std::set<std::string> errors_;
  std::vector<std::string> to_print_;
};

// `resumed` becomes what the answer has of it.
void ReportCheckpoints(RunRequest& request, Json& resumed) {
  request.on_resume = [&resumed](const ResumePoint& point) {
    resumed = {{"path", point.path}, {"step", point.state.step}, {"passed_over", Json::array()}};
    for (const UnusableCheckpoint& file : point.passed_over) {
      Warn(absl::StrCat("passed over: ", file.why));
      resumed["passed_over"].push_back(file.path);
    }
    Say(absl::StrCat("resumed: ", point.path, ", step ", point.state.step));
    Emit("resumed", resumed);
  };
  request.on_checkpoint = [](const CheckpointReport& report) {
    Emit("checkpoint",
         {{"step", report.step},
          {"path", report.path},
          {"error", report.status.ok() ? Json(nullptr) : Json(report.status.message())}});
    if (!report.status.ok()) {
      Warn(absl::StrCat("no checkpoint of step ", report.step, ": ", report.status.message(),
                        "; training goes on, and tries when the next is due"));
      return;
    }
    const auto& best = report.best;
    Say(absl::StrCat("checkpoint: ", report.path, ", step ", report.step,
                     best ? absl::StrCat(", best ", best->name, " ", best->value) : ""));
  };
}

// JSON has no NaN.
Json NumberOrNull(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

// Progress for people, and events. `notes` gets what is said before the first step.
void ReportSteps(RunRequest& request, SkippedSamples& skipped, Json& evaluations, Json& notes) {
  request.on_note = [&notes](const std::string& note) {
    // The same data may be trained on and evaluated.
    if (std::count(notes.begin(), notes.end(), Json(note)) > 0) return;
    Say(absl::StrCat("note: ", note));
    notes.push_back(note);
  };
  request.on_skip = [&skipped](absl::string_view error) { skipped.Add(error); };
  request.on_step = [&skipped](const StepReport& report) {
    skipped.Print();
    const std::string line = report.ToString();
    Emit("step", {{"step", report.step},
                  {"steps", report.steps},
                  {"loss", NumberOrNull(report.loss)},
                  {"accuracy", NumberOrNull(report.accuracy)},
                  {"images_per_second", NumberOrNull(report.images_per_second())}});
    ShowProgress(line, {.of = "run",
                        .done = static_cast<double>(report.step),
                        .wanted = static_cast<double>(report.steps)});
    if (report.step == 1 || report.step == report.steps || report.step % 100 == 0) Say(line);
  };
  request.on_evaluated = [](int64_t batches, int64_t wanted) {
    ShowProgress(absl::StrCat("evaluating: batch ", batches, " of ", wanted),
                 {.of = "evaluation",
                  .done = static_cast<double>(batches),
                  .wanted = static_cast<double>(wanted)});
  };
  request.on_evaluation = [&skipped, &evaluations](int64_t step, const EvaluationResult& result) {
    evaluations.push_back({{"step", step},
                           {"samples", result.samples},
                           {"loss", result.loss},
                           {"accuracy", result.accuracy}});
    skipped.Print();
    Emit("evaluation", evaluations.back());
    Say(absl::StrFormat("after step %d: evaluation loss %.4f, accuracy %.2f %%", step, result.loss,
                        100 * result.accuracy));
  };
}

constexpr int64_t kMostPlanBytes = int64_t{1} << 30;

// What all ranks have to agree about.
absl::Status CheckSameRun(const RunFlags& flags, Ranks& ranks) {
  ASSIGN_OR_RETURN(const std::string plan, ReadFile(flags.plan, kMostPlanBytes));
  return ranks.CheckSame({{"program version", kVersion},
                          {"plan", absl::StrCat(absl::Hex(FingerprintOf(plan)))},
                          {"options", OptionsText(flags)}});
}

// One rank tells people what there is to know about it and about the devices.
absl::Status SetPrecision(const Plan& plan, RunFlags& flags) {
  RunRequest& r = flags.request;
  const std::vector<BackendOfClass> on_gpu = {{"", "cuda"}};
  ASSIGN_OR_RETURN(
      const PlanPrecision precision,
      PrecisionFor(plan, flags.precision, r.virtual_devices > 0 ? on_gpu : r.backends));
  r.precision = precision.precision;
  const std::string determinism = NoteOfDeterminism(plan, r.nondeterministic);
  if (r.ranks != nullptr && !r.ranks->is_rank0()) return absl::OkStatus();
  for (const std::string& note : precision.notes) Say(absl::StrCat("note: ", note));
  if (!determinism.empty()) Say(absl::StrCat("note: ", determinism));
  return absl::OkStatus();
}

void SaySharing(const CoreSharing& sharing, const Ranks* ranks) {
  if (sharing.devices == 0 || (ranks != nullptr && !ranks->is_rank0())) return;
  Say(absl::StrCat("note: ", NoteOf(sharing)));
}

void SetSchedule(RunFlags& flags) {
  RunRequest& r = flags.request;
  const SaveInterval interval = ParseInterval(flags.save_every).value_or(SaveInterval{});
  r.save_every_steps = interval.steps;
  r.save_every_seconds = interval.seconds;
  r.keep = flags.keep.value_or(r.keep);
}

Json JsonOf(const RunOutcome::Checkpoints& checkpoints) {
  Json json = {{"written", checkpoints.written},
               {"failed", checkpoints.failed},
               {"waiting_ms", static_cast<double>(checkpoints.waited_ns) / 1e6}};
  if (const auto& best = checkpoints.best; best.has_value()) {
    json["best"] = {{"path", best->path},
                    {"step", best->step},
                    {"metric", best->best->name},
                    {"value", best->best->value}};
  }
  return json;
}

// Says what is trained, and refuses what is not the network that was exported.
absl::Status CheckTrains(const TrainingModel& model, const RunFlags& flags) {
  const std::vector<std::string> warnings = Warnings(model.imported);
  if (!warnings.empty() && !flags.accept_folded) {
    return absl::InvalidArgumentError(absl::StrCat("'", model.label.source, "': ", warnings[0],
                                                   ". To train it as it is: --accept_folded"));
  }
  if (flags.request.ranks == nullptr || flags.request.ranks->is_rank0()) {
    ShowModel(model.imported, model.loss);
  }
  return absl::OkStatus();
}

// What is read stays.
absl::Status CheckOutputs(const RunFlags& flags, const TrainingModel& model) {
  const RunRequest& r = flags.request;
  const NamedFile outputs[] = {{"--save", r.save},
                               {"--timeline", r.timeline, flags.default_timeline}};
  std::vector<NamedFile> inputs = {{"the plan", flags.plan},
                                   {"--data", PathOfData(r.data)},
                                   {"--eval_data", PathOfData(r.eval_data)},
                                   {"--profile", r.profile},
                                   {"--key_file", flags.key_file}};
  AddModelFiles(model, inputs);
  for (const auto& [name, data, split] :
       {std::tuple("--data", r.data, DataSplit::kTrain),
        std::tuple("--eval_data", r.eval_data, DataSplit::kEval)}) {
    const auto idx = FindIdxFiles(data, split);
    if (!idx.ok()) continue;
    inputs.push_back({name, idx->images});
    inputs.push_back({name, idx->labels});
  }
  return CheckApart(outputs, inputs);
}

std::string StepsText(const RunRequest& request, const RunOutcome& outcome, const ModelLoss& loss,
                      const Json& resumed) {
  if (outcome.metrics.steps() > 0) {
    return absl::StrCat(outcome.metrics.steps(), " steps of ", ToString(loss), ": ",
                        outcome.metrics.ToString(), "\n");
  }
  if (!outcome.status.ok()) return "no step was done: interrupted before\n";
  if (resumed.is_null()) return "no step was done: there was none to do\n";
  const auto step = resumed["step"].get<int64_t>();
  const std::string wanted =
      request.epochs > 0 ? absl::StrCat("steps of ", request.epochs, " epochs")
                         : absl::StrCat(request.steps.value_or(RunRequest::kSteps), " steps");
  return absl::StrCat("no step was done: ", resumed["path"].get<std::string>(), " is at step ",
                      step, ", and already has all ", wanted,
                      "; --steps and --epochs count from the beginning of the run. Try --steps ",
                      2 * step, " to train on\n");
}

// Why the flags do not go together; empty if they do.
absl::Status CheckTogether(const RunFlags& flags) {
  if (!flags.request.load.empty() && !flags.request.resume.empty()) {
    return UsageError("--load and --resume both say where to start: leave one away");
  }
  if (flags.request.steps.has_value() && flags.request.epochs > 0) {
    return UsageError("--steps and --epochs both say how far to train: leave one away");
  }
  if (flags.request.steps == 0 && flags.request.eval_data.empty()) {
    return UsageError(
        "--steps 0 trains nothing; with --eval_data it evaluates the model, or what --load names");
  }
  if (flags.request.eval_every > 0 && flags.request.eval_data.empty()) {
    return UsageError("--eval_every needs --eval_data");
  }
  if (!flags.save_every.empty() && flags.request.save.empty()) {
    return UsageError("--save_every needs --save, whose name its files begin with");
  }
  if (flags.keep.has_value() && flags.save_every.empty()) {
    return UsageError("--keep needs --save_every");
  }
  return absl::OkStatus();
}

Json JsonOf(const TrainingModel& model, const RunFlags& flags, const RunOutcome& outcome) {
  Json json = {{"precision", RowOf(flags.request.precision).name},
               {"nondeterministic", flags.request.nondeterministic},
               {"loss", ToString(model.loss)},
               {"classes", model.loss.classes},
               {"notes", model.imported.notes},
               {"warnings", Warnings(model.imported)},
               {"losses", outcome.metrics.losses()},
               {"images_per_second", outcome.metrics.images_per_second()},
               {"median_step_ms", static_cast<double>(outcome.metrics.median_step_ns()) / 1e6},
               {"waiting_share", outcome.metrics.waiting_share()},
               {"reading_ms", static_cast<double>(outcome.metrics.read_ns()) / 1e6},
               {"reading_hidden_ms", static_cast<double>(outcome.metrics.hidden_read_ns()) / 1e6},
               {"steps", outcome.metrics.steps()},
               {"steps_replayed", outcome.metrics.replayed_steps()},
               {"interrupted", !outcome.status.ok()},
               {"written", outcome.written}};
  if (outcome.evaluation.has_value()) {
    json["eval_loss"] = outcome.evaluation->loss;
    json["eval_accuracy"] = outcome.evaluation->accuracy;
  }
  for (const std::string& note : flags.notes) json["notes"].push_back(note);
  return json;
}

absl::StatusOr<Answer> RunTraining(RunFlags& flags, Stages* stages) {
  RETURN_IF_ERROR(CheckTogether(flags));
  Ranks* ranks = flags.request.ranks;
  RETURN_IF_ERROR(SetTimeline(flags));
  if (ranks != nullptr) RETURN_IF_ERROR(CheckSameRun(flags, *ranks));
  // A checkpoint has the values of all weights.
  const bool from_checkpoint = !flags.request.load.empty() || !flags.request.resume.empty();
  ASSIGN_OR_RETURN(const LoadedPlan loaded,
                   LoadPlan({flags.plan, flags.model,
                             from_checkpoint ? WeightValues::kSkipped : WeightValues::kRequired},
                            stages));
  RETURN_IF_ERROR(CheckOutputs(flags, loaded.model));
  if (!loaded.note.empty()) flags.notes.push_back(loaded.note);
  RETURN_IF_ERROR(CheckTrains(loaded.model, flags));
  if (const int n = flags.request.virtual_devices; n > 0 && n != loaded.plan.topology.size()) {
    return UsageError(absl::StrCat("--virtual_devices ", n, ": the plan has ",
                                   loaded.plan.topology.size(), " devices"));
  }
  RETURN_IF_ERROR(CheckClasses(flags.request.backends, loaded.plan.topology));
  flags.request.stop = &g_interrupted;
  RETURN_IF_ERROR(SetPrecision(loaded.plan, flags));
  CoreSharing sharing;
  if (flags.request.virtual_devices == 0) {
    ASSIGN_OR_RETURN(sharing, CoreSharingOfRun(loaded.plan.topology, ranks));
  }
  SaySharing(sharing, ranks);
  SetSchedule(flags);
  flags.request.cache_in_memory = flags.data_cache == "memory";
  SkippedSamples skipped;
  Json resumed, evaluations = Json::array(), notes = Json::array();
  if (ranks == nullptr || ranks->is_rank0()) {
    ReportSteps(flags.request, skipped, evaluations, notes);
    ReportCheckpoints(flags.request, resumed);
  }
  const absl::StatusOr<RunOutcome> result = RunPlan(loaded, flags.request, stages);
  skipped.PrintAll();
  RETURN_IF_ERROR(result.status());
  const RunOutcome& outcome = *result;
  Answer answer;
  if (!outcome.status.ok() && !IsInterrupted(outcome.status)) return outcome.status;
  flags.notes.insert(flags.notes.end(), outcome.notes.begin(), outcome.notes.end());
  answer.json = JsonOf(loaded.model, flags, outcome);
  answer.json["skipped"] = skipped.count();
  answer.json["evaluations"] = std::move(evaluations);
  for (Json& note : notes) answer.json["notes"].push_back(std::move(note));
  AddCoreSharing(sharing, answer);
  if (sharing.devices > 0) answer.json["notes"].push_back(NoteOf(sharing));
  if (!resumed.is_null()) answer.json["resumed"] = resumed;
  if (outcome.checkpoints.has_value()) answer.json["checkpoints"] = JsonOf(*outcome.checkpoints);
  answer.text =
      flags.request.steps == 0 ? "" : StepsText(flags.request, outcome, loaded.model.loss, resumed);
  if (outcome.evaluation.has_value()) {
    absl::StrAppendFormat(&answer.text, "evaluated: loss %.4f, accuracy %.2f %% of %d samples\n",
                          outcome.evaluation->loss, 100 * outcome.evaluation->accuracy,
                          outcome.evaluation->samples);
  }
  if (!outcome.replay.ok()) {
    absl::StrAppend(&answer.text, "steps are enqueued piece by piece: ", outcome.replay.message(),
                    "\n");
  }
  for (const std::string& note : flags.notes) AppendNote(note, answer);
  for (const std::string& path : outcome.written)
    absl::StrAppend(&answer.text, "written: ", path, "\n");
  if (!outcome.status.ok()) answer.exit_code = CodeOf(ErrorCategory::kInterrupted);
  return answer;
}

// The key of the run, of the environment or this file.
absl::StatusOr<std::optional<RunKey>> KeyOf(const std::string& file) {
  auto key = TakeKeyFromEnvironment();
  if (!key.ok()) return UsageError(key.status().message());
  // A launch's own comes first: its verdicts are told with that.
  if (file.empty() || (g_launched && key->has_value())) return key;
  if (key->has_value()) {
    return UsageError(
        absl::StrCat(kKeyVariable, " and --key_file both give a key: leave one away"));
  }
  ASSIGN_OR_RETURN(key, RunKey::FromFile(file));
  return key;
}

// Ranks that wait for others which never come end when they are asked to. What MPI has started, it
// ends.
absl::StatusOr<std::unique_ptr<Ranks>> JoinRanks(WatchdogOptions options,
                                                 const std::optional<RunKey>& key) {
  ASSIGN_OR_RETURN(const auto found, ReadRankEnvironment(&std::getenv));
  std::optional<EndsWhenInterrupted> waiting;
  if (found.has_value() && found->launcher == RankEnvironment::Launcher::kTorchrun) {
    waiting.emplace("waiting for the other ranks");
  }
  return Ranks::Join(std::move(options), key);
}

// As RunTraining, where a launcher has started this process as one of several.
absl::StatusOr<Answer> RunTrainingOfRank(RunFlags& flags, Stages* stages) {
  ASSIGN_OR_RETURN(const std::optional<RunKey> key, KeyOf(flags.key_file));
  WatchdogOptions options;
  if (g_launched) {
    options.exit_code = CodeOfRank;
    options.tell = [key](const std::string& why) {
      return key.has_value() && FailureChannel::Report(g_verdict_line, *key, why);
    };
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, JoinRanks(std::move(options), key));
  flags.request.ranks = ranks.get();
  absl::StatusOr<Answer> answer = Catching([&] { return RunTraining(flags, stages); });
  if (ranks == nullptr) return answer;
  if (answer.ok()) {
    ranks->Leave();
    answer->silent = !ranks->is_rank0();
    return answer;
  }
  const int code = ranks->Fail(ExitCodeOf(answer.status()), std::string(answer.status().message()));
  if (ranks->is_rank0()) return answer;
  Answer silent;
  silent.silent = true;
  silent.exit_code = code;
  return silent;
}

}  // namespace

void AddRunVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "run", "train a plan on this machine"), verbs,
          std::make_shared<RunFlags>(), [](RunFlags& flags) {
            return RunInStages(flags.stages,
                               [&](Stages* stages) { return RunTrainingOfRank(flags, stages); });
          });
}

}  // namespace partita

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/parallel/plan_io.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "planner/expert/expert_strategies.h"
#include "tools/cli/flags.h"
#include "tools/cli/notes.h"
#include "tools/cli/plan_tables.h"
#include "tools/cli/planning.h"
#include "tools/cli/process.h"
#include "tools/cli/progress.h"
#include "tools/cli/staging.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/version.h"
#include "tools/workflow/input_path.h"
#include "tools/workflow/output_path.h"
#include "tools/workflow/plan_place.h"
#include "tools/workflow/stage_ends.h"
#include "tools/workflow/task_errors.h"

namespace partita {
namespace {

// "alexnet" or "dir/net.onnx" -> "alexnet.plan.textproto", "dir/net.plan.textproto".
std::string DefaultOutput(const std::string& model) {
  std::string stem = model;
  if (IsModelFile(model)) {
    const size_t dot = stem.rfind('.'), slash = stem.rfind('/');
    if (dot != std::string::npos && (slash == std::string::npos || dot > slash)) stem.resize(dot);
  }
  return stem + ".plan.textproto";
}

// The commands that a plan is for: to prove one takes all of its tasks.
std::vector<std::string> NextCommands(const PlanFlags& flags, const PlanOutcome& outcome,
                                      const PricedMachine& priced, const std::string& path) {
  const bool has_tasks = !outcome.pods.has_value() || outcome.pods->is_whole;
  const std::string program = ShellPath(g_program), plan = ShellPath(path);
  const std::string& profile = flags.machine.profile;
  const bool has_own = priced.is_local && profile != MachineRequest().profile;
  const std::string priced_by = has_own ? " --profile " + ShellPath(profile) : "";
  std::vector<std::string> commands;
  if (has_tasks) commands.push_back(absl::StrCat(program, " verify --quick ", plan));
  commands.push_back(
      absl::StrCat(program, priced.is_local ? " run " : " simulate ", plan, priced_by));
  return commands;
}

// A note where few devices have work, with what to try.
std::string UnusedDevicesNote(const PlanFlags& flags, const PlanOutcome& outcome, int64_t batch) {
  const std::vector<DeviceUse>& use = outcome.step.evaluation.use;
  if (outcome.pods.has_value() || use.empty()) return "";
  // What does less than a twentieth of the busiest one's work has next to none.
  Nanos most;
  for (const DeviceUse& one : use) most = std::max(most, one.compute);
  const auto used = std::count_if(use.begin(), use.end(), [most](const DeviceUse& one) {
    return one.compute.value() >= most.value() / 20;
  });
  const auto devices = static_cast<int64_t>(use.size());
  if (used == devices || most == Nanos(0)) return "";
  const std::string why =
      flags.plan.strategy.empty()
          ? "by these prices, moving data to the others costs more than they save"
          : absl::StrCat(flags.plan.strategy, " gives the others nothing to do");
  return absl::StrCat("of ", devices, " devices ", used, used == 1 ? " does" : " do",
                      " all or nearly all of the work; ", why, ". Try a larger --batch (now ",
                      batch, "), --devices ", used, ", or a machine with faster links");
}

// Where the plan went, and what of that the user should know.
void DescribePlace(const std::string& wanted, const PlanPlace& place,
                   const std::vector<std::string>& next, Answer& answer) {
  answer.json["plan"] = place.path;
  answer.json["kept"] = nullptr;
  answer.json["replaced"] = place.replaced.empty() ? Json(nullptr) : Json(place.replaced);
  if (!place.replaced.empty()) {
    absl::StrAppend(&answer.text, "replaced: ", wanted, ", ", place.replaced, "\n");
  }
  if (!place.kept.empty()) {
    const auto& time = place.kept_time;
    answer.json["kept"] = {{"plan", wanted},
                           {"why", place.kept},
                           {"predicted_ns", time ? Json(time->value()) : Json(nullptr)}};
    absl::StrAppend(&answer.text, "kept: ", wanted, ", ",
                    time ? absl::StrCat("whose plan is ", place.kept, ": ", TimeText(*time),
                                        " at today's prices")
                         : place.kept,
                    " (--replace overwrites it)\n");
  }
  absl::StrAppend(&answer.text, "written: ", place.path, "\n");
  if (!Style().quiet && !IsStdout(place.path)) {
    absl::StrAppend(&answer.text, "next: ", absl::StrJoin(next, "\n  or: "), "\n");
  }
  answer.json["next"] = next;
}

std::string FoundText(const MeasuredSearch& search, bool is_searched) {
  const PlanOutcome& outcome = search.outcome;
  const bool is_measured = search.contest.has_value() && search.contest->chosen != 0;
  if (outcome.expert.empty()) return absl::StrCat("the best came from ", outcome.search.origin);
  if (!is_searched || is_measured) return absl::StrCat("the plan is that of ", outcome.expert);
  return absl::StrCat("nothing is faster than ", outcome.expert, ", whose plan this is");
}

// How the plan was chosen by measurement; null where it was not.
void DescribeContest(const std::optional<ContestReport>& contest, Answer& answer) {
  answer.json["measured"] = nullptr;
  if (!contest.has_value()) return;
  answer.text += ContestText(*contest);
  Json rows = Json::array();
  for (const ContestReport::Row& row : contest->rows) {
    const auto& measured = row.measured;
    rows.push_back({{"name", row.name},
                    {"is_expert", row.is_expert},
                    {"predicted_ns", row.predicted.value()},
                    {"median_ns", measured ? Json(measured->median_ns) : Json(nullptr)},
                    {"low_ns", measured ? Json(measured->low_ns) : Json(nullptr)},
                    {"high_ns", measured ? Json(measured->high_ns) : Json(nullptr)},
                    {"steps", measured ? Json(measured->samples) : Json(0)}});
  }
  answer.json["measured"] = {
      {"plans", rows}, {"chosen", contest->chosen}, {"is_sure", contest->is_sure}};
}

// The lower bound, and what is known of the plan besides.
void DescribeBound(const PlanOutcome& outcome, Answer& answer) {
  const Nanos time = outcome.step.evaluation.time, bound = outcome.bound.time();
  const bool is_known = bound > Nanos(0);
  const double gap = GapOf(time, bound);
  const Optimality optimality = OptimalityOf(outcome);
  answer.json["lower_bound_ns"] = is_known ? Json(bound.value()) : Json(nullptr);
  answer.json["lower_bound_parts"] = {{"path_ns", outcome.bound.path.value()},
                                      {"work_ns", outcome.bound.work.value()},
                                      {"late_ns", outcome.bound.late.value()}};
  answer.json["lower_bound_complete"] = outcome.bound.is_complete;
  answer.json["gap"] = is_known ? Json(gap) : Json(nullptr);
  answer.json["proven_optimal"] = optimality == Optimality::kProven;
  answer.json["best_of_candidates"] = optimality >= Optimality::kOfCandidates;
  answer.json["locally_optimal"] = optimality >= Optimality::kLocal;
  if (is_known) {
    absl::StrAppendFormat(
        &answer.text, "no plan%s takes less than %s by these prices: a gap of %.1f %%",
        outcome.bound.is_complete ? "" : " that splits evenly", TimeText(bound), 100 * gap);
  } else {
    absl::StrAppend(&answer.text, "no lower bound is known: its part of --time_limit was up");
  }
  switch (optimality) {
    case Optimality::kUnknown:
      break;
    case Optimality::kLocal:
      absl::StrAppend(&answer.text, "; in the search's order no other single decision is faster");
      break;
    case Optimality::kOfCandidates:
      absl::StrAppend(&answer.text,
                      "; in the search's order the fastest of all combinations of candidates");
      break;
    case Optimality::kProven:
      absl::StrAppend(&answer.text, "; proven optimal");
      break;
  }
  absl::StrAppend(&answer.text, "\n");
}

// How a plan was found that is one pod's for all, and what it lacks.
void DescribePods(const PlanOutcome& outcome, Answer& answer) {
  answer.json["pods"] = nullptr;
  if (!outcome.pods.has_value()) return;
  const auto& [pods, is_whole, is_named, is_checked] = *outcome.pods;
  answer.json["pods"] = {{"count", pods.count},
                         {"devices", pods.devices},
                         {"whole", is_whole},
                         {"named", is_named},
                         {"checked", is_checked}};
  absl::StrAppend(&answer.text, "as ", PodsText(pods), " that train equal shares of the batch\n");
  if (is_whole) return;
  absl::StrAppend(&answer.text, "predicted from the first pod",
                  is_checked ? ", and checked for the first three"
                             : ", and not checked: partita verify does it, task by task",
                  is_named ? "; the plan names collectives, but no order of its tasks: it runs in "
                             "that of the model\n"
                           : "; without an order of tasks, and collectives take algorithms by size "
                             "when it runs\n");
}

void DescribePhases(const PlanOutcome& outcome, Answer& answer) {
  Json json = Json::object();
  std::string text;
  for (const PhaseTime& phase : outcome.phases) {
    json[phase.name] = phase.seconds;
    absl::StrAppendFormat(&text, "%s%s %.2f s", text.empty() ? "" : ", ", phase.name,
                          phase.seconds);
  }
  answer.json["phases"] = json;
  if (!text.empty()) absl::StrAppend(&answer.text, "time: ", text, "\n");
}

void Describe(const PlanFlags& flags, const MeasuredSearch& search, const TrainingModel& model,
              Answer& answer) {
  const PricedMachine& priced = search.priced;
  const PlanOutcome& outcome = search.outcome;
  const Evaluation& e = outcome.step.evaluation;
  const double baseline =
      outcome.baseline.has_value() ? static_cast<double>(outcome.baseline->value()) / 1e6 : NAN;
  const double predicted = static_cast<double>(e.time.value()) / 1e6;
  const SourceShares shares = SharesOf(outcome.step);
  answer.json = {{"plan", nullptr},
                 {"model", model.label.source},
                 {"batch", model.label.batch},
                 {"machine", priced.machine->name},
                 {"devices", priced.machine->topology.size()},
                 {"precision", RowOf(outcome.plan.choices.precision).name},
                 {"nondeterministic", outcome.plan.choices.nondeterministic},
                 {"predicted_ms", predicted},
                 {"predicted_ns", e.time.value()},
                 {"baseline_ms", outcome.baseline.has_value() ? Json(baseline) : Json(nullptr)},
                 {"origin", outcome.search.origin},
                 {"expert", outcome.expert.empty() ? Json(nullptr) : Json(outcome.expert)},
                 {"evaluations", outcome.search.evaluations},
                 {"accepted", outcome.search.accepted},
                 {"search_seconds", outcome.search.seconds},
                 {"seed", outcome.plan.provenance.seed},
                 {"interrupted", g_interrupted.load()},
                 {"time_limit_reached", outcome.search.interrupted && !g_interrupted.load()},
                 {"tasks",
                  {{"measured", e.sources.measured},
                   {"unsteady", e.sources.unsteady},
                   {"interpolated", e.sources.interpolated},
                   {"roofline", e.sources.roofline}}},
                 {"time_shares",
                  {{"measured", shares.measured},
                   {"unsteady", shares.unsteady},
                   {"interpolated", shares.interpolated},
                   {"roofline", shares.roofline}}}};
  DescribeModel(model.imported, model.loss, answer);
  AddMachineNotes(priced, answer);
  std::string& text = answer.text;
  AddSplits(model.graph, outcome.plan.strategy, answer);
  const std::string unused = UnusedDevicesNote(flags, outcome, model.label.batch);
  if (!unused.empty()) {
    answer.json["notes"].push_back(unused);
    AppendNote(unused, answer);
  }
  absl::StrAppend(&text, "predicted step ", TimeText(e.time));
  if (outcome.baseline.has_value()) {
    absl::StrAppendFormat(&text, ", %.2fx as fast as data_parallel (%s)", baseline / predicted,
                          TimeText(*outcome.baseline));
  }
  absl::StrAppend(&text, "\npriced: ", SourcesText(e.sources, shares), "\n");
  DescribeBound(outcome, answer);
  AddCritical(model.graph, SimulatedResources(priced.machine->topology), outcome.step, answer);
  Bytes received;
  for (Bytes b : e.received) received += b;
  absl::StrAppend(&text, "largest peak memory ", BytesText(LargestPeakOf(e)), " per device; ",
                  BytesText(received), " received by all devices in a step\n");
  if (g_interrupted.load()) {
    text += "interrupted: this is the best of what was evaluated until then\n";
  } else if (outcome.search.interrupted) {
    text += "--time_limit was up: this is the best of what was evaluated until then\n";
  }
  absl::StrAppendFormat(&text, "%d strategies evaluated in %.2f s; %s\n",
                        outcome.search.evaluations, outcome.search.seconds,
                        FoundText(search, flags.plan.strategy.empty()));
  DescribePods(outcome, answer);
  DescribePhases(outcome, answer);
  DescribeContest(search.contest, answer);
}

MeasuringTime TimeOf(const PlanFlags& flags) {
  const double unasked = flags.profile_time > 0 ? kMeasureSeconds : 0;
  return {flags.profile_time, flags.measure_time < 0 ? unasked : flags.measure_time};
}

// What cannot be asked for together.
absl::Status CheckTogether(const PlanFlags& flags) {
  if (!flags.plan.strategy.empty() && flags.plan.search != PlanRequest().search) {
    return UsageError(absl::StrCat("--strategy ", flags.plan.strategy,
                                   " leaves nothing to --search ", flags.plan.search,
                                   ": give one of them"));
  }
  RETURN_IF_ERROR(CheckSearchOptions(flags.plan));
  const bool is_one = !flags.devices.has_value() || flags.devices->counts.size() == 1;
  const bool makes_files = !flags.output.empty() || !flags.stages.dump_dir.empty();
  if (is_one || (!makes_files && !flags.pareto && flags.stages.stop_after.empty())) {
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat(
      "-o, --pareto, --dump_dir and --stop_after are for one number of devices; given are ",
      OptionText(*flags.devices), ". Try one of them"));
}

// A line for each number of devices; no plan file.
absl::StatusOr<Answer> AnswerScaling(const PlanFlags& flags) {
  ModelRequest request = flags.model;
  request.values = WeightValues::kSkipped;
  ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel(request, nullptr));
  std::vector<ScalingRow> rows;
  Answer answer;
  for (int devices : flags.devices->counts) {
    if (g_interrupted.load()) break;
    MachineRequest machine = flags.machine;
    machine.devices = devices;
    PlanRequest plan = WithProgress(flags.plan);
    plan.graph_at = [&model](int64_t batch) { return TrainingGraphAt(batch, model); };
    if (!rows.empty() && rows.back().devices <= devices) {
      plan.starts.push_back({absl::StrCat("the plan for ", rows.back().devices, " devices"),
                             rows.back().outcome.plan.strategy});
    }
    ASSIGN_OR_RETURN(
        MeasuredSearch search,
        SearchOnMachine(machine, model.graph, plan, {.profile = flags.profile_time}, nullptr));
    if (rows.empty()) {
      answer.json["machine"] = search.priced.machine->name;
      AddMachineNotes(search.priced, answer);
    }
    AddWarnings(search.disturbance, answer);
    rows.push_back({devices, std::move(search.outcome)});
  }
  if (rows.empty()) return InterruptedError("interrupted before the first plan was found");
  answer.json["model"] = model.label.source;
  answer.json["batch"] = model.label.batch;
  answer.json["interrupted"] = g_interrupted.load();
  DescribeModel(model.imported, model.loss, answer);
  AddScaling(rows, answer);
  return answer;
}

absl::StatusOr<Answer> AnswerPlan(const PlanFlags& flags, Stages* stages) {
  const std::string path = flags.output.empty() ? DefaultOutput(flags.model.model) : flags.output;
  if (IsModelFile(flags.model.model)) RETURN_IF_ERROR(CheckThere(flags.model.model));
  RETURN_IF_ERROR(CheckWritable(path, "-o"));
  ModelRequest request = flags.model;
  request.values = WeightValues::kSkipped;
  ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel(request, stages));
  const NamedFile output[] = {{"-o", path}};
  std::vector<NamedFile> inputs = {{"--machine", flags.machine.machine},
                                   {"--profile", flags.machine.profile}};
  AddModelFiles(model, inputs);
  RETURN_IF_ERROR(CheckApart(output, inputs));
  PlanRequest plan = WithProgress(flags.plan);
  plan.graph_at = [&model](int64_t batch) { return TrainingGraphAt(batch, model); };
  ASSIGN_OR_RETURN(MeasuredSearch search,
                   SearchOnMachine(flags.machine, model.graph, plan, TimeOf(flags), stages));
  const PricedMachine& priced = search.priced;
  PlanOutcome& outcome = search.outcome;
  outcome.plan.model = model.label;
  outcome.plan.provenance.program_version = kVersion;
  outcome.plan.provenance.machine = flags.machine.machine;
  outcome.plan.provenance.options = PlanOptions(flags);
  RETURN_IF_ERROR(EndPlanning(stages, model.graph, outcome));
  const bool is_named = !flags.plan.strategy.empty() && !flags.output.empty();
  ASSIGN_OR_RETURN(const PlanPlace place, PlaceOf({.graph = model.graph,
                                                   .plan = outcome.plan,
                                                   .priced = priced,
                                                   .path = path,
                                                   .graph_at = plan.graph_at,
                                                   .interrupted = g_interrupted.load(),
                                                   .replace = flags.replace,
                                                   .replace_plans = is_named}));
  RETURN_IF_ERROR(WritePlanFile(outcome.plan, model.graph, place.path));
  RETURN_IF_ERROR(EndLowering(stages, model.graph, outcome, SizesOn(priced)));
  Answer answer;
  Describe(flags, search, model, answer);
  if (flags.pareto) {
    RETURN_IF_ERROR(AddFront(model.graph, search, WithProgress(flags.plan), answer));
    EndProgress();
  }
  DescribePlace(path, place, NextCommands(flags, outcome, priced, place.path), answer);
  AddWarnings(search.disturbance, answer);
  return answer;
}

absl::StatusOr<Answer> AnswerPlanVerb(const PlanFlags& flags, Stages* stages) {
  PlanFlags one = flags;
  if (flags.devices.has_value()) {
    if (flags.devices->counts.size() > 1) return AnswerScaling(flags);
    one.machine.devices = flags.devices->counts[0];
  }
  return AnswerPlan(one, stages);
}

}  // namespace

void AddPlanVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "plan", "find the best plan for a model on a machine"), verbs,
          std::make_shared<PlanFlags>(), [](const PlanFlags& flags) -> absl::StatusOr<Answer> {
            RETURN_IF_ERROR(CheckTogether(flags));
            return RunInStages(flags.stages,
                               [&](Stages* stages) { return AnswerPlanVerb(flags, stages); });
          });
}

}  // namespace partita

#include "absl/strings/str_cat.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "graph/task/timeline_details.h"
#include "planner/planner.h"
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
#include "tools/workflow/output_path.h"
#include "tools/workflow/plan_pricing.h"
#include "tools/workflow/stage_ends.h"

namespace partita {
namespace {

constexpr int64_t kMostTimelineBytes = int64_t{1} << 30;

// The machine that was asked for, otherwise the one that the plan was made for. Plans of other
// makers do not say: then this host. Likewise precision and determinism.
absl::StatusOr<PricedMachine> PriceMachineOf(const Plan& plan, MachineRequest request) {
  const bool asks_for_devices = request.devices.has_value();
  if (!asks_for_devices) request.devices = plan.topology.size();
  const bool is_plans = request.machine.empty();
  const std::string& own = plan.provenance.machine;
  if (is_plans) {
    request.machine = own.empty() ? "local" : own;
    // Where the plan was made for devices that share cores, it was asked for then.
    request.oversubscribe |= request.machine == "local" && !asks_for_devices;
  }
  const bool is_asked = request.precision.has_value();
  if (!is_asked) request.precision = plan.choices.precision;
  request.nondeterministic |= plan.choices.nondeterministic;
  auto priced = PriceMachine(request);
  if (!is_asked && plan.choices.precision != Precision::kFloat32 && IsUsageError(priced.status())) {
    return UsageError(absl::StrCat("the plan was priced in ", RowOf(plan.choices.precision).name,
                                   ": ", priced.status().message(), ". Try --precision float32"));
  }
  if (priced.ok() || !is_plans || IsUsageError(priced.status())) return priced;
  return WithMessage(priced.status(),
                     absl::StrCat("the plan was made for machine '", request.machine,
                                  "': ", priced.status().message(), ". Try --machine"));
}

// Adds the times of a run's measured timeline.
absl::Status AddMeasuredFile(const std::string& path, Timeline& timeline) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostTimelineBytes));
  const absl::StatusOr<Timeline> measured = TimelineFromJson(text);
  if (!measured.ok()) {
    return WithMessage(measured.status(),
                       absl::StrCat("'", path, "': ", measured.status().message()));
  }
  return AddMeasured(*measured, absl::StrCat("'", path, "'"), timeline);
}

absl::StatusOr<Answer> RunSimulate(const SimulateFlags& flags, Stages* stages) {
  if (flags.output.empty() && IsStream(flags.plan)) {
    return UsageError(
        absl::StrCat("-o is missing: beside '", flags.plan, "' there is no place for a timeline"));
  }
  const std::string path = flags.output.empty() ? flags.plan + ".timeline.json" : flags.output;
  RETURN_IF_ERROR(CheckWritable(path, "-o"));
  ASSIGN_OR_RETURN(const LoadedPlan loaded,
                   ReadPlan({flags.plan, flags.model, WeightValues::kSkipped}, stages));
  const NamedFile output[] = {{"-o", path}};
  std::vector<NamedFile> inputs = {{"the plan", flags.plan},
                                   {"--measured", flags.measured},
                                   {"--machine", flags.machine.machine},
                                   {"--profile", flags.machine.profile}};
  AddModelFiles(loaded.model, inputs);
  RETURN_IF_ERROR(CheckApart(output, inputs));
  ASSIGN_OR_RETURN(const PricedMachine priced, PriceMachineOf(loaded.plan, flags.machine));
  const Graph& graph = loaded.model.graph;
  const Evaluator evaluator = EvaluatorOn(priced, graph, /*limit_memory=*/false);
  const Doing doing("building plan", flags.plan);
  const auto graph_at = [&](int64_t batch) { return TrainingGraphAt(batch, loaded.model); };
  ASSIGN_OR_RETURN(const PlanOutcome outcome, EvaluatePlan(evaluator, loaded.plan, graph_at));
  const Evaluation& evaluation = outcome.step.evaluation;
  Timeline timeline =
      PredictedTimeline(graph, priced.machine->topology, loaded.plan.strategy, outcome);
  if (!flags.measured.empty()) RETURN_IF_ERROR(AddMeasuredFile(flags.measured, timeline));
  RETURN_IF_ERROR(EndPredictedTimeline(stages, timeline, outcome.step.schedule.makespan));
  RETURN_IF_ERROR(WriteFileAtomically(path, TimelineToJson(timeline)));
  MachineRequest request = flags.machine;
  if (request.machine.empty()) request.machine = loaded.plan.provenance.machine;
  const std::string note = PriceNote(loaded.plan, outcome, priced, request);
  const auto& said = loaded.plan.prediction;
  Answer answer;
  answer.json = {{"machine", priced.machine->name},
                 {"precision", RowOf(priced.precision).name},
                 {"nondeterministic", priced.nondeterministic},
                 {"predicted_ms", static_cast<double>(evaluation.time.value()) / 1e6},
                 {"predicted_ns", evaluation.time.value()},
                 {"file_predicted_ns", said ? Json(said->time.value()) : Json(nullptr)},
                 {"note", note},
                 {"tasks", evaluation.tasks},
                 {"timeline", path}};
  answer.text = absl::StrCat(
      "predicted step on ", priced.machine->name, " ", TimeText(evaluation.time), ", ",
      evaluation.tasks, " tasks",
      outcome.pods.has_value()
          ? absl::StrCat(", as the first of ", PodsText(outcome.pods->pods), " sees it")
          : "",
      "\n");
  answer.json["notes"] = Json::array();
  if (!loaded.note.empty()) {
    answer.json["notes"].push_back(loaded.note);
    AppendNote(loaded.note, answer);
  }
  if (!note.empty()) AppendNote(note, answer);
  AddCritical(graph, evaluator.resources(), outcome.step, answer);
  absl::StrAppend(&answer.text, "written: ", path, " (open it at ui.perfetto.dev)\n");
  AddMachineNotes(priced, answer);
  return answer;
}

}  // namespace

void AddSimulateVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "simulate", "the predicted timeline of a plan"), verbs,
          std::make_shared<SimulateFlags>(), [](const SimulateFlags& flags) {
            return RunInStages(flags.stages,
                               [&](Stages* stages) { return RunSimulate(flags, stages); });
          });
}

}  // namespace partita

#include "tools/workflow/stage_ends.h"

#include "absl/strings/str_cat.h"
#include "graph/graph_text.h"
#include "graph/parallel/plan_io.h"
#include "graph/parallel/strategy_text.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "graph/task/timeline_details.h"
#include "graph/verify/step_verifier.h"

namespace partita {
namespace {

absl::Status ReadsBack(const Timeline& timeline) {
  ASSIGN_OR_RETURN(const Timeline read, TimelineFromJson(TimelineToJson(timeline)));
  if (read == timeline) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("timeline '", timeline.title, "' reads back otherwise"));
}

}  // namespace

absl::Status EndModel(Stages* stages, const ImportedModel& model) {
  return EndStage(stages, Stage::kModel, nullptr, [&] {
    std::string text = GraphText(model.graph);
    for (const std::string& note : model.notes) absl::StrAppend(&text, "note: ", note, "\n");
    return text;
  });
}

absl::Status EndTrainingGraph(Stages* stages, const Graph& graph) {
  return EndStage(stages, Stage::kTrainingGraph, nullptr, [&] { return GraphText(graph); });
}

absl::Status EndStrategy(Stages* stages, const Graph& graph, const Strategy& strategy,
                         int devices) {
  return EndStage(
      stages, Stage::kStrategy, [&] { return ValidateStrategy(graph, strategy, devices); },
      [&] {
        return absl::StrCat(
            "# n=2: 2 parts along loop n; x2: 2 copies; on: the devices of the parts\n",
            StrategyText(graph, strategy));
      });
}

absl::Status EndTaskGraph(Stages* stages, const Graph& graph, const Strategy& strategy,
                          const TaskGraph& tasks, const std::vector<TaskId>& order) {
  return EndStage(
      stages, Stage::kTaskGraph,
      [&] { return VerifyStep({graph, strategy, tasks, order, nullptr}); },
      [&] { return TaskGraphText(tasks, graph); });
}

absl::Status EndPredictedTimeline(Stages* stages, const Timeline& timeline, Nanos time) {
  return EndStage(
      stages, Stage::kPredictedTimeline,
      [&]() -> absl::Status {
        if (LengthOf(timeline) != time) {
          return absl::InternalError(absl::StrCat("the timeline ends after ",
                                                  LengthOf(timeline).value(),
                                                  " ns, the step after ", time.value()));
        }
        return ReadsBack(timeline);
      },
      [&] { return TimelineToJson(timeline); });
}

absl::Status EndPlan(Stages* stages, const Graph& graph, const Plan& plan) {
  return EndStage(
      stages, Stage::kPlan,
      [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const proto::Plan message, ParsePlanText(PlanText(plan, graph), "plan"));
        ASSIGN_OR_RETURN(const Plan read, PlanFromProto(message, graph));
        if (read == plan) return absl::OkStatus();
        return absl::InternalError("the plan reads back otherwise");
      },
      [&] { return PlanText(plan, graph); });
}

absl::Status EndProgram(Stages* stages, const Graph& graph, const Strategy& strategy,
                        const Program& program) {
  const int devices = program.tasks.devices();
  RETURN_IF_ERROR(EndStageOfDevices(
      stages, Stage::kProgram, devices,
      [&] { return VerifyStep({graph, strategy, program.tasks, program.order, &program.memory}); },
      [&](int d) { return ProgramText(program, graph, DeviceId(d)); }));
  return EndStageOfDevices(stages, Stage::kBuffers, devices, nullptr,
                           [&](int d) { return BuffersText(program, graph, DeviceId(d)); });
}

absl::Status EndMeasuredTimeline(Stages* stages, const Timeline& timeline) {
  return EndStage(
      stages, Stage::kMeasuredTimeline, [&] { return ReadsBack(timeline); },
      [&] { return TimelineToJson(timeline); });
}

std::vector<std::string> SplitsOf(const Graph& graph, const Strategy& strategy) {
  std::vector<std::string> splits;
  if (strategy.configs.size() != graph.ops().size()) return splits;
  for (const Operator& op : graph.ops()) {
    splits.push_back(op.anchor == kNoOp
                         ? ""
                         : ToString(graph.rule(op.anchor), strategy.configs[op.anchor.index()]));
  }
  return splits;
}

Timeline PredictedTimeline(const Graph& graph, const DeviceTopology& topology,
                           const Strategy& strategy, const PlanOutcome& outcome) {
  const EvaluatedStep& step = outcome.step;
  Timeline timeline = TimelineOf(graph, step.tasks, step.schedule.start, step.schedule.end);
  timeline.title = "predicted";
  for (const Device& device : topology.devices()) timeline.device_names.push_back(device.name);
  const std::vector<std::string> splits = SplitsOf(graph, strategy);
  const bool has_memory = step.memory.offset.size() == step.tasks.buffers().size();
  const bool is_whole = !outcome.pods.has_value() || outcome.pods->is_whole;
  AddDetails({.graph = graph,
              .tasks = step.tasks,
              .memory = has_memory ? &step.memory : nullptr,
              .whole_devices = is_whole ? 0 : outcome.pods->pods.devices,
              .splits = splits},
             timeline);
  CHECK(AddPredicted(timeline, "the prediction", timeline).ok());
  return timeline;
}

absl::Status EndPlanning(Stages* stages, const Graph& graph, const PlanOutcome& outcome) {
  if (stages == nullptr) return absl::OkStatus();
  const Plan& plan = outcome.plan;
  const EvaluatedStep& step = outcome.step;
  RETURN_IF_ERROR(EndStrategy(stages, graph, plan.strategy, plan.topology.size()));
  RETURN_IF_ERROR(EndTaskGraph(stages, graph, plan.strategy, step.tasks, step.order));
  return EndPredictedTimeline(stages,
                              PredictedTimeline(graph, plan.topology, plan.strategy, outcome),
                              step.schedule.makespan);
}

absl::Status EndLowering(Stages* stages, const Graph& graph, const PlanOutcome& outcome,
                         const MemorySizes& sizes) {
  if (stages == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(EndPlan(stages, graph, outcome.plan));
  ASSIGN_OR_RETURN(const Program program, Lower(outcome.step.tasks, outcome.step.order, sizes));
  return EndProgram(stages, graph, outcome.plan.strategy, program);
}

absl::Status EndReading(Stages* stages, const Graph& graph, const Plan& plan) {
  if (stages == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(EndStrategy(stages, graph, plan.strategy, plan.topology.size()));
  ASSIGN_OR_RETURN(const PlannedStep step, BuildPlannedStep(graph, plan));
  RETURN_IF_ERROR(EndTaskGraph(stages, graph, plan.strategy, step.tasks, step.order));
  return EndPlan(stages, graph, plan);
}

}  // namespace partita

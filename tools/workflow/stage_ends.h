#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/model/model_source.h"
#include "graph/parallel/plan.h"
#include "graph/partition/planned_step.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/timeline.h"
#include "planner/evaluator.h"
#include "planner/planner.h"
#include "runtime/lowering/program.h"
#include "tools/workflow/stages.h"

namespace partita {

// Checks and dumps of each stage. All return as EndStage does, OK with null.

absl::Status EndModel(Stages* stages, const ImportedModel& model);
absl::Status EndTrainingGraph(Stages* stages, const Graph& graph);
// Checks that the strategy is valid for the graph on so many devices.
absl::Status EndStrategy(Stages* stages, const Graph& graph, const Strategy& strategy, int devices);
// Checks the task graph by VerifyStep.
absl::Status EndTaskGraph(Stages* stages, const Graph& graph, const Strategy& strategy,
                          const TaskGraph& tasks, const std::vector<TaskId>& order);
// Checks that the timeline ends with the schedule, and that its text reads back as itself.
absl::Status EndPredictedTimeline(Stages* stages, const Timeline& timeline, Nanos time);
// Checks that the text reads back as the same plan.
absl::Status EndPlan(Stages* stages, const Graph& graph, const Plan& plan);
// Ends both stages, program and buffers. Checks by VerifyStep, memory included.
absl::Status EndProgram(Stages* stages, const Graph& graph, const Strategy& strategy,
                        const Program& program);
absl::Status EndMeasuredTimeline(Stages* stages, const Timeline& timeline);

// The timeline of the outcome's step of a strategy, with details; memory is shown of the devices
// whose tasks the step has, which may be the first pod's alone.
Timeline PredictedTimeline(const Graph& graph, const DeviceTopology& topology,
                           const Strategy& strategy, const PlanOutcome& outcome);

// The configuration of each operator in words, indexed by OpId; of updates, which have none, empty.
// Empty if the strategy is not one of the graph.
std::vector<std::string> SplitsOf(const Graph& graph, const Strategy& strategy);

// The stages of a plan that a planner made, up to the timeline; and from the plan on, its program
// lowered with memory as `sizes` has it.
absl::Status EndPlanning(Stages* stages, const Graph& graph, const PlanOutcome& outcome);
absl::Status EndLowering(Stages* stages, const Graph& graph, const PlanOutcome& outcome,
                         const MemorySizes& sizes);
// The stages of a plan that was read: strategy, task graph, plan.
absl::Status EndReading(Stages* stages, const Graph& graph, const Plan& plan);

}  // namespace partita

// What an executor runs between devices is what the planner foresaw, bucket for bucket.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/expert/expert_strategies.h"
#include "planner/planner.h"
#include "runtime/backend/backends.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/measured_timeline.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

// Names of the entries of communication, by task and device.
std::map<std::pair<TaskKey, DeviceId>, std::string> CommunicationIn(const Timeline& timeline) {
  std::map<std::pair<TaskKey, DeviceId>, std::string> names;
  for (const TimelineEntry& entry : timeline.entries) {
    if (entry.lane == Lane::kCommunication) names[{entry.key, entry.device}] = entry.name;
  }
  return names;
}

TEST(ExecutedCollectivesTest, TheMeasuredTimelineHasTheCollectivesOfThePredictedOne) {
  constexpr int kDevices = 4;
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("lenet", 8)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine("k80-16x4", kDevices)));
  const auto costs = MakeDefaultCostModel(machine);
  const Evaluator evaluator(graph, machine->topology, *costs);
  const PlanOutcome outcome =
      Ok(PlanOf(evaluator, Ok(DataParallel(graph, machine->topology)), "data_parallel"));
  ASSERT_FALSE(outcome.plan.strategy.buckets.empty());
  const EvaluatedStep& step = outcome.step;
  const auto predicted =
      CommunicationIn(TimelineOf(graph, step.tasks, step.schedule.start, step.schedule.end));
  const std::vector<float> input(
      static_cast<size_t>(Volume(graph.WholeType(TensorRole::kSamples).shape)));
  const std::vector<int32_t> labels(static_cast<size_t>(graph.batch()));
  for (const char* communicator : {"inproc", "streams"}) {
    const auto executor =
        Ok(OpenExecutor(graph, Ok(BuildPlannedStep(graph, outcome.plan)),
                        {.devices = VirtualDevices(Ok(MakeBackend("reference")), kDevices),
                         .communicator = communicator,
                         .record_timeline = true}));
    const StepResult result = Ok(executor->Step(HostTensorOf(input), HostTensorOf(labels), {}));
    const Timeline measured = MeasuredTimeline(graph, executor->program().tasks, result.timeline,
                                               "measured", {"0", "1", "2", "3"});
    EXPECT_EQ(CommunicationIn(measured), predicted) << communicator;
  }
}

}  // namespace
}  // namespace partita

// Algorithms and buckets of collectives by price.
#include "planner/collective_choice.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/collective/algorithms.h"
#include "graph/partition/planned_step.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/expert/expert_strategies.h"
#include "planner/planner.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

struct Setting {
  Setting(const std::string& model, int64_t batch, const std::string& machine_name, int devices)
      : Setting(Ok(BuildTrainingGraph(Ok(MakeZooModel(model, batch)), {})), machine_name, devices) {
  }
  Setting(Graph training, const std::string& machine_name, int devices)
      : graph(std::move(training)),
        machine(std::make_shared<const Machine>(Ok(FindMachine(machine_name, devices)))),
        costs(MakeDefaultCostModel(machine)),
        evaluator(graph, machine->topology, *costs) {}

  const Graph graph;
  const std::shared_ptr<const Machine> machine;
  const std::unique_ptr<CostModel> costs;
  const Evaluator evaluator;
};

int CollectivesOf(const TaskGraph& tasks) {
  int count = 0;
  for (const Task& task : tasks.tasks()) {
    count += std::holds_alternative<CollectiveTask>(task.body) ? 1 : 0;
  }
  return count;
}

TEST(CollectiveChoiceTest, EachCollectiveTakesTheCheapestAlgorithm) {
  const Setting at("lenet", 64, "k80-16x4", 8);
  const EvaluatedStep step =
      Ok(at.evaluator.EvaluateStep(Ok(DataParallel(at.graph, at.machine->topology))));
  std::vector<int> nodes;
  for (const Device& device : at.machine->topology.devices()) nodes.push_back(device.node);
  int collectives = 0;
  for (const Task& task : step.tasks.tasks()) {
    const auto* body = std::get_if<CollectiveTask>(&task.body);
    if (body == nullptr) continue;
    ++collectives;
    ASSERT_EQ(body->group.size(), nodes.size());
    for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
      const std::string name = ForNodes(row.name, nodes);
      if (!CheckDoes(name, body->collective).ok()) continue;
      const auto other =
          at.costs->CollectiveCost({&body->collective, name, body->group, body->dtype});
      EXPECT_LE(step.costs[task.id.index()].time, other->time) << row.name;
    }
  }
  EXPECT_GT(collectives, 5);
}

// What a plan stores is what Partition builds of it without a rule, and what its time is.
TEST(CollectiveChoiceTest, StoredChoicesGiveTheSameStep) {
  std::mt19937_64 random(7);
  int with_buckets = 0;
  for (int round = 0; round < 20; ++round) {
    const int devices = 2 + static_cast<int>(random() % 7);
    const Setting at(RandomTrainingGraph(random), round % 2 == 0 ? "p100-4x4" : "k80-16x4",
                     devices);
    const Strategy strategy = RandomStrategy(at.graph, devices, random);
    const Strategy joined = WithBuckets(at.evaluator, strategy).strategy;
    with_buckets += joined.buckets.empty() ? 0 : 1;
    const EvaluatedStep step = Ok(at.evaluator.EvaluateStep(joined));
    const TaskGraph again =
        Ok(Partition(at.graph, step.strategy, PartitionOptionsOf(at.machine->topology, {})));
    EXPECT_EQ(again.fingerprint(), step.tasks.fingerprint());
    const EvaluatedStep stored = Ok(at.evaluator.EvaluateStep(step.strategy));
    EXPECT_EQ(stored.evaluation.time, step.evaluation.time);
    EXPECT_TRUE(stored.strategy == step.strategy);
    EXPECT_TRUE(WithBuckets(at.evaluator, step.strategy).strategy == step.strategy);
    EXPECT_LE(step.evaluation.time, Ok(at.evaluator.EvaluateStep(strategy)).evaluation.time);
  }
  EXPECT_GT(with_buckets, 0);
}

// What the cache holds of a step's collectives is what the step has.
TEST(CollectiveChoiceTest, CollectivesOfAStrategyAreThoseOfItsTasks) {
  std::mt19937_64 random(8);
  size_t collectives = 0;
  for (int round = 0; round < 20; ++round) {
    const int devices = 2 + static_cast<int>(random() % 7);
    const Setting at(RandomTrainingGraph(random), round % 2 == 0 ? "p100-4x4" : "k80-16x4",
                     devices);
    const Strategy strategy = RandomStrategy(at.graph, devices, random);
    const auto found = Ok(at.evaluator.CollectivesOf(strategy));
    const EvaluatedStep step = Ok(at.evaluator.EvaluateStep(strategy));
    size_t next = 0;
    for (const Task& task : step.tasks.tasks()) {
      const auto* body = std::get_if<CollectiveTask>(&task.body);
      if (body == nullptr) continue;
      ASSERT_LT(next, found.size());
      const auto& [id, own, waits] = found[next++];
      EXPECT_EQ(id, (CollectiveStepId{TensorId(task.key.subject), task.key.step}));
      EXPECT_EQ(own.group, body->group);
      EXPECT_EQ(own.collective.total, body->collective.total);
      EXPECT_EQ(own.algorithm, body->algorithm);
      EXPECT_EQ(own.has_replicas, body->has_replicas);
      EXPECT_EQ(waits, !task.after.empty());
    }
    EXPECT_EQ(next, found.size());
    collectives += next;
  }
  EXPECT_GT(collectives, 20u);
}

TEST(CollectiveChoiceTest, SmallAllReducesOfAResNetRunInFewBuckets) {
  const Setting at("resnet18", 64, "p100-4x4", 16);
  const Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  const EvaluatedStep apart = Ok(at.evaluator.EvaluateStep(strategy));
  const EvaluatedStep joined =
      Ok(at.evaluator.EvaluateStep(WithBuckets(at.evaluator, strategy).strategy));
  EXPECT_LT(joined.evaluation.time, apart.evaluation.time);
  EXPECT_LT(CollectivesOf(joined.tasks), CollectivesOf(apart.tasks) * 3 / 4);
}

// Whenever the interruption comes: nothing is known, or what is known holds.
TEST(CollectiveChoiceTest, BucketsThatAreInterruptedAreNoSlowerThanNone) {
  const Setting at("resnet18", 64, "k80-16x4", 8);
  const Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  const BucketedStrategy none = WithBuckets(at.evaluator, strategy, [] { return true; });
  EXPECT_EQ(none.evaluation.verdict, Evaluation::Verdict::kInterrupted);
  EXPECT_TRUE(none.strategy == strategy);
  const Nanos alone = at.evaluator.EvaluateBriefly(strategy, kNoCutoff).time;
  bool ends = false;
  int known = 0;
  for (int most = 0; !ends; most += 1 + most / 8) {
    int calls = 0;
    const BucketedStrategy found =
        WithBuckets(at.evaluator, strategy, [&] { return calls++ >= most; });
    ends = calls <= most;
    known += !found.strategy.buckets.empty();
    EXPECT_LE(found.evaluation.time, alone);
    EXPECT_EQ(at.evaluator.EvaluateBriefly(found.strategy, kNoCutoff).time, found.evaluation.time);
  }
  EXPECT_GT(known, 0);
}

// Stopped before it begins, planning still compares with data parallelism.
TEST(CollectiveChoiceTest, PlansThatAreStoppedAreNoSlowerThanDataParallelism) {
  const Setting at("alexnet", 64, "k80-16x4", 8);
  const Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  const std::atomic<bool> stop = true;
  PlanRequest request;
  request.options.stop = &stop;
  const PlanOutcome outcome = Ok(MakePlan(at.evaluator, request));
  EXPECT_TRUE(outcome.search.interrupted);
  ASSERT_TRUE(outcome.baseline.has_value());
  EXPECT_LE(outcome.step.evaluation.time, *outcome.baseline);
  EXPECT_LE(*outcome.baseline, at.evaluator.EvaluateBriefly(strategy, kNoCutoff).time);
}

// Verifier, memory and order included.
TEST(CollectiveChoiceTest, PlansWithBucketsPassTheVerifier) {
  const Setting at("resnet_tiny", 32, "k80-16x4", 8);
  const PlanOutcome made =
      Ok(PlanOf(at.evaluator, Ok(DataParallel(at.graph, at.machine->topology)), "data_parallel"));
  EXPECT_FALSE(made.plan.strategy.buckets.empty());
  EXPECT_FALSE(made.plan.strategy.algorithms.empty());
  const PlanOutcome again = Ok(EvaluatePlan(at.evaluator, made.plan));
  EXPECT_EQ(again.step.evaluation.time, made.step.evaluation.time);
  EXPECT_FALSE(again.reordered);
  // On other nodes the choices are made anew.
  const Setting other("resnet_tiny", 32, "p100-4x4", 8);
  const PlanOutcome there = Ok(EvaluatePlan(other.evaluator, made.plan));
  const PlanOutcome direct =
      Ok(PlanOf(other.evaluator, Ok(DataParallel(at.graph, at.machine->topology)), ""));
  if (there.reordered) {
    EXPECT_EQ(there.step.evaluation.time, direct.step.evaluation.time);
  }
}

}  // namespace
}  // namespace partita

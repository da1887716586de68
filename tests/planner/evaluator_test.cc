#include "planner/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/partition/planned_step.h"
#include "graph/support/check.h"
#include "graph/task/task_order.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "tests/planner/strategies.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

using testing::Each;
using testing::HasSubstr;

class EvaluatorTest : public testing::Test {
 protected:
  void SetUp() override { Use("lenet", "p100-4x4", 4); }

  void Use(const std::string& model, const std::string& machine, int devices) {
    graph_ = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, 64)), {}));
    machine_ = std::make_shared<const Machine>(Ok(FindMachine(machine, devices)));
    model_ = MakeDefaultCostModel(machine_);
    devices_ = devices;
  }
  Evaluator MakeEvaluator(Evaluator::Options options = {}) const {
    return Evaluator(graph_, machine_->topology, *model_, std::move(options));
  }

  Graph graph_;
  std::shared_ptr<const Machine> machine_;
  std::unique_ptr<CostModel> model_;
  int devices_ = 0;
};

TEST_F(EvaluatorTest, OneDeviceIsBusyAllTheTimeAndTheOthersNever) {
  const Evaluation e = MakeEvaluator().Evaluate(SingleDevice(graph_, DeviceId(1)));
  ASSERT_TRUE(e.feasible()) << e.reason;
  EXPECT_GT(e.time, Nanos(0));
  EXPECT_EQ(e.use[1].compute, e.time);
  EXPECT_EQ(e.use[1].idle, Nanos(0));
  EXPECT_EQ(e.use[0].idle, e.time);
  EXPECT_THAT(e.received, Each(Bytes(0)));
  EXPECT_GT(e.peak[1], Bytes(0));
  EXPECT_EQ(e.peak[0], Bytes(0));
  EXPECT_EQ(e.sources.roofline, e.tasks);
}

TEST_F(EvaluatorTest, TimesOfADeviceAddUp) {
  const Evaluator evaluator = MakeEvaluator();
  std::mt19937_64 random(17);
  for (int round = 0; round < 10; ++round) {
    const EvaluatedStep step = Ok(evaluator.EvaluateStep(RandomStrategy(graph_, devices_, random)));
    const Evaluation& e = step.evaluation;
    for (int d = 0; d < devices_; ++d) {
      const auto i = static_cast<size_t>(d);
      EXPECT_EQ(e.use[i].compute, step.schedule.busy[i]);
      EXPECT_GE(e.use[i].compute + e.use[i].communication + e.use[i].idle, e.time);
      EXPECT_LE(e.use[i].compute + e.use[i].idle, e.time);
      EXPECT_LE(e.use[i].communication + e.use[i].idle, e.time);
      EXPECT_EQ(e.peak[i], step.memory.peak(DeviceId(d)));
    }
    EXPECT_EQ(e.received, BytesReceived(step.tasks));
    EXPECT_EQ(e.time, step.schedule.makespan);
  }
}

Nanos SumOf(const std::vector<Nanos>& times) {
  Nanos sum;
  for (Nanos time : times) sum += time;
  return sum;
}

TEST_F(EvaluatorTest, CriticalTimesAddUpToTheStep) {
  const Evaluator evaluator = MakeEvaluator();
  std::mt19937_64 random(19);
  for (int round = 0; round < 10; ++round) {
    const Strategy strategy = RandomStrategy(graph_, devices_, random);
    const std::vector<Nanos> times = Ok(evaluator.CriticalTimes(strategy));
    ASSERT_EQ(times.size(), graph_.ops().size() + graph_.tensors().size());
    EXPECT_LE(SumOf(times), evaluator.EvaluateBriefly(strategy, kNoCutoff).time);
    EXPECT_GT(SumOf(times), Nanos(0));
  }
  // On one device nothing is between the tasks.
  const Strategy one = SingleDevice(graph_, DeviceId(1));
  const std::vector<Nanos> times = Ok(evaluator.CriticalTimes(one));
  EXPECT_EQ(SumOf(times), evaluator.EvaluateBriefly(one, kNoCutoff).time);
  for (OpId op : graph_.anchors()) {
    const std::string& name = graph_.op(op).name;
    if (name.rfind("conv", 0) == 0 || name.rfind("fc", 0) == 0) {
      EXPECT_GT(times[op.index()], Nanos(0)) << name;
    }
  }
  Strategy wrong = one;
  wrong.configs[graph_.anchors()[0].index()].devices = {DeviceId(99)};
  EXPECT_FALSE(evaluator.CriticalTimes(wrong).ok());
}

TEST_F(EvaluatorTest, FullAndShortEvaluationAgree) {
  const Evaluator evaluator = MakeEvaluator();
  std::mt19937_64 random(19);
  for (int round = 0; round < 10; ++round) {
    const Strategy strategy = RandomStrategy(graph_, devices_, random);
    const Evaluation full = Ok(evaluator.EvaluateStep(strategy)).evaluation;
    const Evaluation brief = evaluator.Evaluate(strategy);
    EXPECT_EQ(full.time, brief.time);
    EXPECT_EQ(full.peak, brief.peak);
    const Evaluation stopped = evaluator.Evaluate(strategy, Nanos(1));
    EXPECT_LE(stopped.time, full.time);
    EXPECT_GT(stopped.time, Nanos(1));
    EXPECT_TRUE(stopped.peak.empty());
  }
}

// The length of the step's schedule if no task waited for memory. Checks that those that wait do.
Nanos LengthWithoutWaits(const Evaluator& evaluator, const EvaluatedStep& step) {
  for (const auto& [task, before] : step.memory.added_dependencies) {
    EXPECT_GE(step.schedule.start[task.index()], step.schedule.end[before.index()]);
  }
  const FlatTasks flat = Flatten(step.tasks, evaluator.resources());
  return SimulateInOrder(flat, DurationsOf(step.costs), step.order).makespan;
}

TEST_F(EvaluatorTest, ReuseOfMemoryHoldsNothingUpInTheOrderOfASchedule) {
  const Evaluator evaluator = MakeEvaluator();
  std::mt19937_64 random(23);
  int64_t waits = 0, held_up = 0;
  for (int round = 0; round < 10; ++round) {
    EvaluatedStep step = Ok(evaluator.EvaluateStep(RandomStrategy(graph_, devices_, random)));
    EXPECT_EQ(LengthWithoutWaits(evaluator, step), step.evaluation.time);
    waits += static_cast<int64_t>(step.memory.added_dependencies.size());
    std::vector<TaskId> canonical = CanonicalOrder(step.tasks);
    step = Ok(evaluator.EvaluateOrder(std::move(step.tasks), std::move(canonical)));
    EXPECT_LE(LengthWithoutWaits(evaluator, step), step.evaluation.time);
    held_up += LengthWithoutWaits(evaluator, step) < step.evaluation.time;
  }
  EXPECT_GT(waits, 0);
  EXPECT_GT(held_up, 0) << "in orders that are of no schedule";
}

TEST_F(EvaluatorTest, StoredOrderGivesTheSameEvaluation) {
  const Evaluator evaluator = MakeEvaluator();
  std::mt19937_64 random(29);
  const Strategy strategy = RandomStrategy(graph_, devices_, random);
  const EvaluatedStep step = Ok(evaluator.EvaluateStep(strategy));
  Plan plan{.topology = machine_->topology, .strategy = step.strategy};
  SetOrder(step, plan);
  PlannedStep planned = Ok(BuildPlannedStep(graph_, plan));
  EXPECT_EQ(planned.order, step.order);
  const EvaluatedStep again =
      Ok(evaluator.EvaluateOrder(std::move(planned.tasks), std::move(planned.order)));
  EXPECT_EQ(PredictionOf(again.evaluation), PredictionOf(step.evaluation));
  EXPECT_EQ(again.schedule.start, step.schedule.start);
}

TEST_F(EvaluatorTest, TheBestOrderIsThatOfTheRuleByWhichTheStepIsShortest) {
  std::mt19937_64 random(31);
  int others = 0;
  for (int round = 0; round < 10; ++round) {
    const Strategy strategy = RandomStrategy(graph_, devices_, random);
    const EvaluatedStep best = Ok(MakeEvaluator().EvaluateBestOrder(strategy));
    Nanos least = kNoCutoff;
    for (const Priority& rule : Priorities()) {
      Evaluator::Options options;
      options.priority = &rule;
      options.any_priority = false;
      const Evaluator own = MakeEvaluator(options);
      const EvaluatedStep step = Ok(own.EvaluateStep(strategy));
      const EvaluatedStep only = Ok(own.EvaluateBestOrder(strategy));
      EXPECT_EQ(PredictionOf(only.evaluation), PredictionOf(step.evaluation)) << rule.name;
      EXPECT_EQ(only.memory.offset, step.memory.offset) << rule.name;
      const Evaluation& by_rule = step.evaluation;
      EXPECT_EQ(own.EvaluateBrieflyInBestOrder(strategy).time, by_rule.time) << rule.name;
      least = std::min(least, by_rule.time);
      if (best.priority == &rule) {
        EXPECT_EQ(best.evaluation.time, by_rule.time) << rule.name;
      }
    }
    EXPECT_EQ(best.evaluation.time, least);
    EXPECT_EQ(MakeEvaluator().EvaluateBrieflyInBestOrder(strategy).time, least);
    Plan plan;
    SetOrder(best, plan);
    EXPECT_EQ(plan.priority, best.priority->name);
    others += best.priority != &DefaultPriority();
    const EvaluatedStep again = Ok(MakeEvaluator().EvaluateOrder(
        Ok(Partition(graph_, best.strategy, MakeEvaluator().partition_options())), best.order));
    EXPECT_EQ(PredictionOf(again.evaluation), PredictionOf(best.evaluation));
  }
  EXPECT_GT(others, 3);
}

TEST_F(EvaluatorTest, OrdersThatASearchDrawsAreFoundAgain) {
  std::mt19937_64 random(37);
  int shorter = 0;
  for (int round = 0; round < 10; ++round) {
    const Strategy strategy = RandomStrategy(graph_, devices_, random);
    const Evaluator evaluator = MakeEvaluator();
    const EvaluatedStep best = Ok(evaluator.EvaluateBestOrder(strategy));
    EXPECT_TRUE(best.draws.empty());
    const OrderSearch search{.tries = 60, .seed = 5};
    const EvaluatedStep step = Ok(evaluator.EvaluateBestOrder(strategy, search));
    EXPECT_EQ(step.priority, best.priority);
    // Draws are kept up to the last that made it shorter.
    EXPECT_EQ(step.evaluation.time < best.evaluation.time, !step.draws.empty());
    EXPECT_LE(step.evaluation.time, best.evaluation.time);
    shorter += step.evaluation.time < best.evaluation.time;
    const EvaluatedStep same = Ok(MakeEvaluator().EvaluateBestOrder(strategy, search));
    EXPECT_EQ(same.draws, step.draws);
    EXPECT_EQ(same.order, step.order);
    Plan plan;
    SetOrder(step, plan);
    EXPECT_EQ(plan.priority_draws, step.draws);
    Evaluator::Options options;
    options.priority = step.priority;
    options.draws = step.draws;
    options.any_priority = false;
    const Evaluator by_draws = MakeEvaluator(options);
    const EvaluatedStep again = Ok(by_draws.EvaluateStep(strategy));
    EXPECT_EQ(PredictionOf(again.evaluation), PredictionOf(step.evaluation));
    EXPECT_EQ(again.order, step.order);
    EXPECT_EQ(by_draws.EvaluateBriefly(strategy, kNoCutoff).time, step.evaluation.time);
    // The rule that was asked for stays.
    EXPECT_EQ(Ok(by_draws.EvaluateBestOrder(strategy, search)).order, step.order);
    const OrderSearch known{.priority = step.priority, .draws = step.draws};
    EXPECT_EQ(Ok(evaluator.EvaluateBestOrder(strategy, known)).order, step.order);
    const OrderSearch stopped{.tries = 60, .interrupted = [] { return true; }};
    EXPECT_EQ(Ok(evaluator.EvaluateBestOrder(strategy, stopped)).order, best.order);
  }
  EXPECT_GT(shorter, 3);
}

TEST_F(EvaluatorTest, InvalidStrategyIsAVerdictThatNamesTheOperator) {
  Strategy strategy = SingleDevice(graph_, DeviceId(0));
  const OpId anchor = graph_.anchors()[0];
  strategy.configs[anchor.index()].devices = {DeviceId(4)};
  const Evaluation e = MakeEvaluator().Evaluate(strategy);
  EXPECT_EQ(e.verdict, Evaluation::Verdict::kInvalid);
  EXPECT_THAT(e.reason, HasSubstr(graph_.op(anchor).name));
  EXPECT_FALSE(MakeEvaluator().EvaluateStep(strategy).ok());
}

TEST_F(EvaluatorTest, TooLittleMemoryIsAVerdictThatSaysWhereAndByHowMuch) {
  std::vector<Device> devices(machine_->topology.devices().begin(),
                              machine_->topology.devices().end());
  const Strategy strategy = SingleDevice(graph_, DeviceId(2));
  const Bytes peak = MakeEvaluator().Evaluate(strategy).peak[2];
  devices[2].memory = peak - Bytes(100);
  const auto topology = Ok(DeviceTopology::Create(
      devices, {machine_->topology.links().begin(), machine_->topology.links().end()}));
  const Evaluation e = Evaluator(graph_, topology, *model_).Evaluate(strategy);
  EXPECT_EQ(e.verdict, Evaluation::Verdict::kOutOfMemory);
  EXPECT_THAT(e.reason, HasSubstr("device 2"));
  EXPECT_THAT(e.reason, HasSubstr("100 too few"));
  EXPECT_EQ(e.peak[2], peak);
  Evaluator::Options unlimited;
  unlimited.limit_memory = false;
  EXPECT_TRUE(Evaluator(graph_, topology, *model_, unlimited).Evaluate(strategy).feasible());
}

TEST_F(EvaluatorTest, ThreadsGetTheSameAnswers) {
  const Evaluator evaluator = MakeEvaluator();
  std::mt19937_64 random(31);
  std::vector<Strategy> strategies;
  for (int i = 0; i < 4; ++i) strategies.push_back(RandomStrategy(graph_, devices_, random));
  std::vector<Nanos> alone, together(strategies.size());
  for (const Strategy& strategy : strategies) alone.push_back(evaluator.Evaluate(strategy).time);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < strategies.size(); ++i) {
    threads.emplace_back([&, i] { together[i] = evaluator.Evaluate(strategies[i]).time; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alone, together);
}

TEST_F(EvaluatorTest, SlowNetworkMakesOneDeviceTheBest) {
  Use("alexnet_s56", "ethernet-4x100m", 4);
  const Evaluator evaluator = MakeEvaluator();
  const Evaluation one = evaluator.Evaluate(SingleDevice(graph_, DeviceId(0)));
  const Evaluation split = evaluator.Evaluate(SplitFirstLoop(graph_, devices_));
  ASSERT_TRUE(one.feasible() && split.feasible()) << one.reason << split.reason;
  EXPECT_LT(one.time, split.time);
}

TEST_F(EvaluatorTest, SplittingSamplesPaysOnAFastNetwork) {
  Use("resnet18", "p100-4x4", 4);
  const Evaluator evaluator = MakeEvaluator();
  const Evaluation one = evaluator.Evaluate(SingleDevice(graph_, DeviceId(0)));
  const Evaluation split = evaluator.Evaluate(SplitFirstLoop(graph_, devices_));
  ASSERT_TRUE(one.feasible() && split.feasible()) << one.reason << split.reason;
  EXPECT_LT(split.time, one.time);
}

}  // namespace
}  // namespace partita

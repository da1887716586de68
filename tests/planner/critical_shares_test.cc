// What a step waits for, by operator.
#include "planner/critical_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "graph/task/task_order.h"
#include "tests/planner/fixture.h"

namespace partita {
namespace {

using Kind = CriticalShare::Kind;

std::vector<CriticalShare> SharesIn(const Workplace& at, const EvaluatedStep& step) {
  return CriticalSharesOf(at.graph, at.evaluator.resources(), step);
}

TEST(CriticalSharesTest, AddUpToTheStepAndNameOperators) {
  std::set<Kind> kinds;
  for (const char* model : {"lenet", "rnnlm_tiny", "resnet_tiny", "gpt_tiny"}) {
    const Workplace at(model, 16, "p100-4x4", 4);
    std::mt19937_64 random(3);
    for (int round = 0; round < 5; ++round) {
      const EvaluatedStep step = Ok(at.evaluator.EvaluateStep(at.space.RandomStrategy(random)));
      const std::vector<CriticalShare> shares = SharesIn(at, step);
      Nanos sum;
      std::set<std::string> named;
      for (const CriticalShare& share : shares) {
        sum += share.time;
        kinds.insert(share.kind);
        EXPECT_FALSE(share.anchors.empty());
        for (OpId anchor : share.anchors) {
          ASSERT_NE(anchor, kNoOp);
          EXPECT_EQ(at.graph.op(anchor).anchor, anchor);
        }
        EXPECT_TRUE(named.insert(NameOf(share.kind) + OperatorsOf(at.graph, share)).second);
      }
      EXPECT_LE(sum, step.evaluation.time);
      EXPECT_GE(sum * 10, step.evaluation.time * 9);
      EXPECT_TRUE(std::is_sorted(
          shares.begin(), shares.end(),
          [](const CriticalShare& a, const CriticalShare& b) { return a.time > b.time; }));
    }
  }
  EXPECT_EQ(kinds.size(), std::size(kCriticalKinds));
}

// In another order than that of a schedule tasks wait for memory that others have.
TEST(CriticalSharesTest, CountWhatMemoryIsWaitedFor) {
  const Workplace at("alexnet", 64, "h100-16x8", 8);
  std::mt19937_64 random(5);
  int waiting = 0;
  for (int round = 0; round < 10; ++round) {
    EvaluatedStep found = Ok(at.evaluator.EvaluateStep(at.space.RandomStrategy(random)));
    const std::vector<TaskId> order = CanonicalOrder(found.tasks);
    const EvaluatedStep step = Ok(at.evaluator.EvaluateOrder(std::move(found.tasks), order));
    const Schedule without =
        SimulateInOrder(Flatten(step.tasks, at.evaluator.resources()), step.durations, order);
    waiting += without.makespan != step.schedule.makespan;
    Nanos sum;
    for (const CriticalShare& share : SharesIn(at, step)) sum += share.time;
    EXPECT_EQ(sum, step.evaluation.time);
  }
  EXPECT_GE(waiting, 1);
}

// The time of a kind at these operators; 0 where it is none.
Nanos TimeOf(const std::vector<CriticalShare>& shares, Kind kind,
             const std::vector<OpId>& anchors) {
  for (const CriticalShare& share : shares) {
    if (share.kind == kind && share.anchors == anchors) return share.time;
  }
  return Nanos(0);
}

TEST(CriticalSharesTest, TellKernelsExchangesAndWeightsApart) {
  const Workplace at("lenet", 64, "k80-16x4", 8);
  const OpId conv = at.Op("conv2"), relu = at.Op("relu2"), fc = at.Op("fc1");
  const auto one = SharesIn(at, Ok(at.evaluator.EvaluateStep(at.Expert("single_device"))));
  EXPECT_GT(TimeOf(one, Kind::kKernels, {conv}), Nanos(0));
  EXPECT_GT(TimeOf(one, Kind::kWeights, {conv}), Nanos(0));  // its update
  for (const CriticalShare& share : one) EXPECT_NE(share.kind, Kind::kExchange);
  const Strategy parallel = at.Expert("data_parallel");
  const auto all = SharesIn(at, Ok(at.evaluator.EvaluateStep(parallel)));
  EXPECT_GT(TimeOf(all, Kind::kWeights, {fc}), TimeOf(one, Kind::kWeights, {fc}));
  Strategy apart = at.Expert("single_device");
  apart.configs[conv.index()].devices = {DeviceId(4)};
  const auto moved = SharesIn(at, Ok(at.evaluator.EvaluateStep(apart)));
  EXPECT_GT(TimeOf(moved, Kind::kExchange, {conv, relu}), Nanos(0));
}

}  // namespace
}  // namespace partita

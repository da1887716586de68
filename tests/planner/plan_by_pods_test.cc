// Machines of many devices, planned by pods.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/parallel/plan_io.h"
#include "graph/partition/planned_step.h"
#include "planner/collective_choice.h"
#include "planner/expert/expert_strategies.h"
#include "planner/planner.h"
#include "planner/pods/pod_collectives.h"
#include "planner/pods/pod_experts.h"
#include "planner/pods/pod_problem.h"
#include "planner/pods/pod_search.h"
#include "planner/search/search_algorithm.h"
#include "planner/space/search_space.h"
#include "planner/space/stage_moves.h"
#include "tests/planner/fixture.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PlanRequest RequestFor(const std::string& model) {
  PlanRequest request;
  request.options.evaluations = 120;
  request.graph_at = [model](int64_t batch) -> absl::StatusOr<Graph> {
    return TrainingGraphOf(model, batch);
  };
  return request;
}

TEST(PodSizesTest, BeginInANodeAndGrowWhereTheBatchHasEqualShares) {
  EXPECT_THAT(PodSizes(Workplace("lenet", 1024, "h100-16x8", 128).evaluator), ElementsAre(8, 32));
  EXPECT_THAT(PodSizes(Workplace("lenet", 1024, "minsky-32x4", 128).evaluator),
              ElementsAre(4, 16, 64));
  // Two shares of 3 samples.
  EXPECT_THAT(PodSizes(Workplace("lenet", 6, "minsky-32x4", 128).evaluator), ElementsAre(64));
  EXPECT_THAT(PodSizes(Workplace("lenet", 7, "minsky-32x4", 128).evaluator), ElementsAre());
}

// They have room for stages on nodes of their own.
TEST(PodSearchTest, HalvesHaveSeveralNodes) {
  const Workplace at("lenet", 64, "minsky-32x4", 64), few("lenet", 64, "minsky-32x4", 32);
  SearchProblem problem = at.Problem(), of_few = few.Problem();
  OfferPods(RequestFor("lenet").graph_at, problem);
  OfferPods(RequestFor("lenet").graph_at, of_few);
  const PodScope kHalves{.kind = PodScope::Kind::kParts, .parts = 2};
  const SearchProblem::OfPods found = problem.by_pods({.evaluations = 40, .threads = 1}, kHalves);
  ASSERT_EQ(found.strategies.size(), 1u);
  EXPECT_THAT(found.strategies[0].name, HasSubstr("for pods of 32"));
  EXPECT_GT(found.evaluations, 0);
  EXPECT_TRUE(at.evaluator.Evaluate(found.strategies[0].strategy).feasible());
  EXPECT_TRUE(of_few.by_pods({.evaluations = 40, .threads = 1}, kHalves).strategies.empty());
}

// Each of their nodes has a stage of its own, and one evaluation of them is one of all devices.
TEST(PodSearchTest, PairsOfNodesFindStagesThatWorkAtTheSameTime) {
  const Workplace at("resnet18", 64, "k80-16x4", 64), few("resnet18", 64, "k80-16x4", 16);
  SearchProblem problem = at.Problem(), of_few = few.Problem();
  OfferPods(RequestFor("resnet18").graph_at, problem);
  OfferPods(RequestFor("resnet18").graph_at, of_few);
  const PodScope scope{.kind = PodScope::Kind::kTwoNodes,
                       .starts = {"data_parallel", "one_weird_trick"},
                       .bucket_bytes = Bytes(32 << 20)};
  const SearchOptions options{.evaluations = 400, .threads = 1};
  const SearchProblem::OfPods found = problem.by_pods(options, scope);
  ASSERT_EQ(found.strategies.size(), 1u);
  EXPECT_THAT(found.strategies[0].name, HasSubstr("for pods of 8"));
  EXPECT_TRUE(HasStagesApart(problem.space, found.strategies[0].strategy));
  EXPECT_LT(at.evaluator.Evaluate(found.strategies[0].strategy).time,
            at.evaluator.Evaluate(at.Expert("data_parallel")).time);
  EXPECT_TRUE(of_few.by_pods(options, scope).strategies.empty());
  // Stages of alexnet are not faster than its starts.
  const Workplace other("alexnet", 256, "k80-16x4", 64);
  SearchProblem of_other = other.Problem();
  OfferPods(RequestFor("alexnet").graph_at, of_other);
  EXPECT_TRUE(of_other.by_pods(options, scope).strategies.empty());
}

// What is found in the order of searches goes on in best orders.
TEST(PodSearchTest, RecurrentModelsAreComparedInTheirBestOrders) {
  const Workplace at("rnnlm_tiny", 1024, "minsky-32x4", 128);
  const GraphAt graph_at = RequestFor("rnnlm_tiny").graph_at;
  const SearchOptions options{.evaluations = 400, .threads = 1};
  PodSearch pods(at.evaluator, graph_at, SearchAuto, options);
  ASSERT_EQ(pods.Run(), absl::OkStatus());
  const Evaluator& evaluator = pods.pods().evaluator();
  const SearchResult& found = pods.found();
  EXPECT_LE(pods.evaluations(), options.evaluations + 50);  // all starts of each size
  EXPECT_EQ(
      found.evaluation.time,
      evaluator.EvaluateBriefly(found.best, kNoCutoff, nullptr, pods.problem().bucket_bytes).time);
  // The best in one order, among others.
  const Strategy joined = Ok(evaluator.WithBucketsUpTo(found.best, found.evaluation.bucket_bytes));
  const Nanos least = evaluator.EvaluateBrieflyInBestOrder(joined).time;
  int others = 0;
  for (const FoundStrategy& one : found.by_origin) {
    EXPECT_LE(least, one.time) << one.found.name;
    others += one.found.strategy != found.best;
  }
  EXPECT_GT(others, 0);
}

TEST(PlanByPodsTest, AStepOfFewTasksIsMadeWholeAndTakesWhatWasPredicted) {
  const Workplace at("lenet", 1024, "minsky-32x4", 128);
  const PlanOutcome outcome = Ok(MakePlan(at.evaluator, RequestFor("lenet")));
  ASSERT_TRUE(outcome.pods.has_value());
  EXPECT_TRUE(outcome.pods->is_whole);
  EXPECT_TRUE(outcome.pods->is_checked);
  EXPECT_TRUE(outcome.plan.order.has_value());
  const OrderSearch order{.priority = Ok(PriorityNamed(outcome.plan.priority)),
                          .draws = outcome.plan.priority_draws};
  const EvaluatedStep again = Ok(at.evaluator.EvaluateBestOrder(outcome.plan.strategy, order));
  EXPECT_EQ(again.evaluation.time, outcome.plan.prediction->time);
  EXPECT_LE(again.evaluation.time, *outcome.baseline);
  const Strategy data_parallel = at.Expert("data_parallel");
  const PlanOutcome joined = Ok(PlanOf(at.evaluator, data_parallel, "data_parallel"));
  const PlanOutcome apart = Ok(PlanAsIs(at.evaluator, data_parallel, "data_parallel"));
  EXPECT_EQ(*outcome.baseline, std::min(joined.step.evaluation.time, apart.step.evaluation.time));
}

TEST(PlanByPodsTest, OfManyTasksThePredictionIsThatOfTheWholeStep) {
  const std::string model = kSanitized ? "lenet" : "alexnet";
  const Workplace at(model, 4096, "minsky-64x4", 256);
  const PlanOutcome outcome = Ok(MakePlan(at.evaluator, RequestFor(model)));
  ASSERT_TRUE(outcome.pods.has_value());
  const Evaluation whole = at.evaluator.EvaluateBrieflyInBestOrder(outcome.plan.strategy);
  const auto time = static_cast<double>(whole.time.value());
  EXPECT_NEAR(static_cast<double>(outcome.plan.prediction->time.value()), time, 0.01 * time);
  EXPECT_TRUE(outcome.pods->is_whole);
  EXPECT_EQ(outcome.plan.prediction->peak.size(), 256);
  EXPECT_EQ(outcome.plan.prediction->received.size(), 256);
  EXPECT_LE(outcome.plan.prediction->time, *outcome.baseline);
  EXPECT_EQ(outcome.pods->pods.devices * outcome.pods->pods.count, 256);
}

// Searches compare in one order; what is slower in it than others may be faster in its own.
TEST(PlanByPodsTest, NoExpertIsFasterInItsBestOrder) {
  for (const char* model : {"gpt_tiny", "lenet"}) {
    const Workplace at(model, 256, "h100-16x8", 128);
    PlanRequest request = RequestFor(model);
    request.options.evaluations = 30;
    const PlanOutcome outcome = Ok(MakePlan(at.evaluator, request));
    ASSERT_TRUE(outcome.pods.has_value());
    const auto pods =
        Ok(PodProblem::Create(at.evaluator, request.graph_at, outcome.pods->pods.devices));
    for (const NamedStrategy& start : pods->Problem(/*has_fewer=*/false).starts) {
      const Strategy joined = WithBuckets(pods->evaluator(), start.strategy).strategy;
      for (const Strategy& strategy : {start.strategy, joined}) {
        const Evaluation expert = pods->evaluator().EvaluateBrieflyInBestOrder(strategy);
        if (!expert.feasible()) continue;
        // Other pods may be a little slower than the first (PodView).
        EXPECT_LE(outcome.step.evaluation.time.value(), expert.time.value() * 1001 / 1000)
            << model << ", " << start.name;
      }
    }
  }
}

// Buckets are what data parallelism needs most.
TEST(PlanByPodsTest, GivesWayToDataParallelismInBuckets) {
  const Workplace at("lenet", 1024, "h100-16x8", 128);
  const PlanOutcome outcome = Ok(MakePlan(at.evaluator, RequestFor("lenet")));
  const PlanOutcome expert = Ok(PlanOf(at.evaluator, at.Expert("data_parallel"), "data_parallel"));
  ASSERT_FALSE(expert.plan.strategy.buckets.empty());
  EXPECT_LE(outcome.step.evaluation.time, expert.step.evaluation.time);
  EXPECT_EQ(*outcome.baseline, expert.step.evaluation.time);
  ASSERT_TRUE(outcome.pods.has_value() && outcome.pods->is_whole);
  EXPECT_FALSE(outcome.plan.strategy.buckets.empty());
  EXPECT_LE(EvaluatePlan(at.evaluator, outcome.plan)->step.evaluation.time,
            outcome.step.evaluation.time);
}

// What is named tensor by tensor is what the step of all devices gets by price.
TEST(CollectivesOfPodsTest, AreThoseOfTheStepOfAllDevices) {
  int known = 0, joined = 0;
  const std::vector<std::string> models = {"lenet", "gpt_tiny", "rnnlm_tiny", "resnet_tiny"};
  for (const std::string& model : CasesOf(models)) {
    const Workplace at(model, 512, "h100-8x8", 64);
    const PlanRequest request = RequestFor(model);
    for (int size : {8, 16}) {
      const auto pods = Ok(PodProblem::Create(at.evaluator, request.graph_at, size));
      std::vector<Strategy> strategies;
      for (NamedStrategy& start : pods->Problem(/*has_fewer=*/false).starts) {
        strategies.push_back(std::move(start.strategy));
      }
      std::mt19937_64 random(7);
      const SearchSpace space(pods->graph(), size);
      for (int k = 0; k < CasesOf(6); ++k) strategies.push_back(space.RandomStrategy(random));
      for (const Strategy& strategy : strategies) {
        const BucketedStrategy of_pod = WithBuckets(pods->evaluator(), strategy);
        if (!of_pod.evaluation.feasible()) continue;
        const Strategy named = *Ok(OfAllPodsWithCollectives(*pods, of_pod));
        Strategy of_all = Ok(pods->OfAllPods(strategy));
        of_all = Ok(at.evaluator.WithBucketsUpTo(of_all, of_pod.evaluation.bucket_bytes));
        EXPECT_EQ(named, Ok(at.evaluator.EvaluateStep(of_all)).strategy) << model << ", " << size;
        ++known;
        joined += !named.buckets.empty();
      }
    }
  }
  EXPECT_GE(known, CasesOf(40));
  EXPECT_GE(joined, CasesOf(10));
}

TEST(CollectivesOfPodsTest, StopWhenInterrupted) {
  const Workplace at("lenet", 1024, "h100-16x8", 128);
  const PlanRequest request = RequestFor("lenet");
  const auto pods = Ok(PodProblem::Create(at.evaluator, request.graph_at, 8));
  const Strategy strategy = Ok(DataParallel(pods->graph(), pods->evaluator().topology()));
  EXPECT_FALSE(
      Ok(OfAllPodsWithCollectives(*pods, {strategy, {}}, [] { return true; })).has_value());
}

// As plans of machines are that have too many tasks for one.
TEST(PlanByPodsTest, APlanWithoutAnOrderTakesWhatWasPredicted) {
  const Workplace at("gpt_tiny", 256, "h100-16x8", 128);
  Plan plan = Ok(MakePlan(at.evaluator, RequestFor("gpt_tiny"))).plan;
  plan.model = at.PlanOf(plan.strategy).model;
  plan.order.reset();
  ASSERT_FALSE(plan.priority.empty());
  const PlanOutcome again = Ok(EvaluatePlan(at.evaluator, plan));
  EXPECT_EQ(again.step.evaluation.time, plan.prediction->time);
  EXPECT_FALSE(again.reordered);
  EXPECT_TRUE(again.plan.order.has_value());
  EXPECT_THAT(Ok(BuildPlannedStep(at.graph, plan)).note, HasSubstr(plan.priority));
  const PlanOutcome by_pods = Ok(EvaluatePlan(at.evaluator, plan, RequestFor("gpt_tiny").graph_at));
  ASSERT_TRUE(by_pods.pods.has_value());
  EXPECT_EQ(by_pods.plan.strategy, plan.strategy);
  const auto time = static_cast<double>(plan.prediction->time.value());
  EXPECT_NEAR(static_cast<double>(by_pods.step.evaluation.time.value()), time, 0.001 * time);
  // Urgencies are of operators and tensors, of which every pod has all.
  plan.priority_draws = {1, 2, 3, 4};
  const Nanos drawn = Ok(EvaluatePlan(at.evaluator, plan)).step.evaluation.time;
  EXPECT_NE(drawn, again.step.evaluation.time);
  const PlanOutcome drawn_by_pods =
      Ok(EvaluatePlan(at.evaluator, plan, RequestFor("gpt_tiny").graph_at));
  EXPECT_EQ(drawn_by_pods.plan.priority_draws, plan.priority_draws);
  EXPECT_NEAR(static_cast<double>(drawn_by_pods.step.evaluation.time.value()),
              static_cast<double>(drawn.value()), 0.001 * time);
  // One that pods do not find is evaluated by all of its tasks.
  plan.strategy.algorithms.back().algorithm = "ring";
  const PlanOutcome edited = Ok(EvaluatePlan(at.evaluator, plan, RequestFor("gpt_tiny").graph_at));
  EXPECT_FALSE(edited.pods.has_value());
}

TEST(PodExpertsTest, DataParallelismIsThatOfAllDevices) {
  const Workplace at("lenet", 1024, "h100-16x8", 128);
  const PlanRequest request = RequestFor("lenet");
  const PodExperts experts(at.evaluator, request.graph_at);
  const PlanOutcome joined = Ok(experts.PlanOf("data_parallel"));
  EXPECT_EQ(joined.search.origin, "data_parallel");
  EXPECT_EQ(joined.plan.topology.size(), 128);
  const PlanOutcome whole = Ok(PlanOf(at.evaluator, at.Expert("data_parallel"), "data_parallel"));
  EXPECT_EQ(joined.plan.strategy, whole.plan.strategy);
  const auto time = static_cast<double>(whole.step.evaluation.time.value());
  EXPECT_NEAR(static_cast<double>(joined.step.evaluation.time.value()), time, 0.001 * time);
  EXPECT_EQ(Ok(experts.PlanOf("one_weird_trick")).search.origin, "one_weird_trick for pods of 8");
  EXPECT_EQ(experts.PlanOf("rnn_placement").status().code(), absl::StatusCode::kFailedPrecondition);
  PlanRequest named = request;
  named.strategy = "data_parallel";
  EXPECT_TRUE(Ok(MakePlan(at.evaluator, named)).pods.has_value());
  // What is asked for by name is that of all devices: no layer splits over so many.
  named.strategy = "one_weird_trick";
  EXPECT_EQ(MakePlan(at.evaluator, named).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PlanByPodsTest, WithoutTimeTheStepOfAllDevicesIsNotMade) {
  const Workplace at("alexnet", 4096, "minsky-64x4", 256);
  PlanRequest request = RequestFor("alexnet");
  request.options.time_limit_seconds = 0.2;
  const PlanOutcome outcome = Ok(MakePlan(at.evaluator, request));
  ASSERT_TRUE(outcome.pods.has_value());
  EXPECT_FALSE(outcome.pods->is_whole);
  EXPECT_FALSE(outcome.plan.order.has_value());
  EXPECT_EQ(outcome.plan.prediction->peak.size(), 256);
}

TEST(PlanByPodsTest, TheSameSeedGivesTheSameBytesWithAnyThreads) {
  const Workplace at("lenet", 1024, "h100-16x8", 128);
  std::string first;
  for (int threads : {1, 2, 4}) {
    PlanRequest request = RequestFor("lenet");
    request.options.threads = threads;
    const PlanOutcome outcome = Ok(MakePlan(at.evaluator, request));
    Plan plan = outcome.plan;
    plan.model = at.PlanOf(plan.strategy).model;
    plan.provenance.options.clear();
    const std::string text = PlanText(plan, at.graph);
    if (first.empty()) first = text;
    EXPECT_EQ(text, first);
  }
}

TEST(PlanByPodsTest, WhatDoesNotFitSaysByHowMuch) {
  const Workplace at("alexnet", 4096, "h100-16x8", 128);
  PlanRequest request = RequestFor("alexnet");
  request.memory_limit = Bytes(1 << 20);
  const absl::Status status = MakePlan(at.evaluator, request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("too few"));
}

TEST(PlanByPodsTest, WithoutEqualSharesTheMachineIsSearchedAsAWhole) {
  const Workplace at("lenet", 67, "minsky-32x4", 128);
  PlanRequest request = RequestFor("lenet");
  request.options.evaluations = 5;
  const PlanOutcome outcome = Ok(MakePlan(at.evaluator, request));
  EXPECT_FALSE(outcome.pods.has_value());
}

}  // namespace
}  // namespace partita

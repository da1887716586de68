// Plans of a small model, run in turn on this host; the outcome is one of them, whole.
#include "tools/workflow/plan_contest.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/planner.h"
#include "tests/testing/ok.h"
#include "tools/workflow/plan_pricing.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

class PlanContestTest : public testing::Test {
 protected:
  PlanContestTest() {
    machine_.devices = 2;
    machine_.oversubscribe = true;
    machine_.profile = absl::StrCat(testing::TempDir(), "plan_contest.db");
    priced_ = Ok(PriceMachine(machine_));
    options_.measuring = {.backends = machine_.backends, .profile = machine_.profile};
    request_.options.evaluations = 40;
    request_.wants_rivals = true;
  }
  PlanOutcome Found() const { return Ok(MakePlan(EvaluatorOn(priced_, model_.graph), request_)); }

  MachineRequest machine_;
  PricedMachine priced_;
  ContestOptions options_;
  PlanRequest request_;
  const TrainingModel model_ = Ok(LoadTrainingModel({"mlp_tiny", 64}));
};

TEST_F(PlanContestTest, RivalsAreSortedAndFit) {
  const PlanOutcome found = Found();
  ASSERT_FALSE(found.rivals.empty());
  bool has_expert = false;
  for (size_t k = 0; k < found.rivals.size(); ++k) {
    const Nanos before = k == 0 ? Nanos(0) : found.rivals[k - 1].time;
    EXPECT_LE(before, found.rivals[k].time);
    has_expert |= found.rivals[k].is_expert;
  }
  EXPECT_TRUE(has_expert);
  EXPECT_LE(found.step.evaluation.time, found.rivals[0].time);
}

TEST_F(PlanContestTest, TheChosenPlanIsWholeAndPricedByItself) {
  options_.seconds = 5;
  PlanOutcome outcome = Found();
  const int64_t evaluations = outcome.plan.provenance.evaluations;
  const auto report = Ok(HoldContest(model_.graph, priced_, options_, outcome));
  ASSERT_TRUE(report.has_value());
  ASSERT_GE(report->rows.size(), 2u);
  EXPECT_LE(report->rows.size(), kMostContenders + 1);
  ASSERT_LT(report->chosen, report->rows.size());
  EXPECT_TRUE(report->rows[report->chosen].measured.has_value());
  const Evaluator evaluator = EvaluatorOn(priced_, model_.graph);
  const PlanOutcome again = Ok(EvaluatePlan(evaluator, outcome.plan));
  EXPECT_EQ(again.step.evaluation.time, outcome.step.evaluation.time);
  EXPECT_EQ(outcome.plan.prediction->time, report->rows[report->chosen].predicted);
  EXPECT_EQ(outcome.plan.provenance.evaluations, evaluations);
  EXPECT_EQ(!outcome.expert.empty(), report->rows[report->chosen].is_expert);
  EXPECT_NE(ContestText(*report).find("\n* "), std::string::npos);
}

TEST_F(PlanContestTest, WithoutTimeThePricedChoiceStays) {
  std::atomic<bool> stop = true;
  options_.seconds = 5;
  options_.stop = &stop;
  PlanOutcome outcome = Found();
  const Strategy before = outcome.plan.strategy;
  const auto report = Ok(HoldContest(model_.graph, priced_, options_, outcome));
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->chosen, 0u);
  EXPECT_EQ(outcome.plan.strategy, before);
  EXPECT_FALSE(report->rows[0].measured.has_value());
}

TEST_F(PlanContestTest, TheFastestRivalTakesPartHoweverDear) {
  options_.seconds = 5;
  PlanOutcome outcome = Found();
  outcome.expert = "single_device";
  for (Rival& rival : outcome.rivals) rival.time = rival.time * 100;
  const auto report = Ok(HoldContest(model_.graph, priced_, options_, outcome));
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->rows.size(), 2u);
}

TEST_F(PlanContestTest, OnOneDeviceThereIsNothingToChoose) {
  machine_.devices = 1;
  priced_ = Ok(PriceMachine(machine_));
  options_.seconds = 5;
  PlanOutcome outcome = Found();
  EXPECT_FALSE(Ok(HoldContest(model_.graph, priced_, options_, outcome)).has_value());
}

}  // namespace
}  // namespace partita

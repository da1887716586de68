// What a search that alternates with measuring returns: priced by all that was measured in the end,
// and then not slower than any expert, wherever it is interrupted.
#include "tools/workflow/measured_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cost_model/profile_db.h"
#include "planner/expert/expert_strategies.h"
#include "planner/search/integer_program.h"
#include "tests/testing/ok.h"
#include "tools/workflow/plan_pricing.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

class MeasuredSearchTest : public testing::Test {
 protected:
  void SetUp() override {
    request_.machine.devices = 2;
    request_.machine.oversubscribe = true;
    request_.machine.profile = absl::StrCat(
        testing::TempDir(), testing::UnitTest::GetInstance()->current_test_info()->name(), ".db");
    request_.plan.options.evaluations = 60;
    request_.plan.options.stop = &stop_;
    request_.profiling.stop = &stop_;
  }
  void TearDown() override { std::remove(request_.machine.profile.c_str()); }

  // A database that misleads: some kernels of the experts, up to a thousand times faster or slower
  // than any is.
  void MakeUpPrices(uint64_t seed) const {
    std::remove(request_.machine.profile.c_str());
    const PricedMachine priced = Ok(PriceMachine(request_.machine));
    const WantedSignatures wanted = SignaturesOfSearch(model_.graph, priced, 60);
    std::mt19937_64 random(seed);
    std::vector<ProfileRecord> busy, uncontended;
    for (const KernelWork& work : wanted.kernels) {
      if (random() % 3 == 0) continue;
      ProfileRecord record = RecordOf(work.signature);
      record.samples_ns = {int64_t{1} << (7 + random() % 14)};
      busy.push_back(record);
      record.samples_ns[0] = std::max<int64_t>(1, record.samples_ns[0] / (1 + random() % 3));
      uncontended.push_back(record);
    }
    ProfileDb db = Ok(ProfileDb::Open(request_.machine.profile, ProfileDb::Mode::kCreate));
    const DeviceFingerprint device = priced.FingerprintOf(DeviceId(0));
    EXPECT_EQ(db.Insert(device, busy), absl::OkStatus());
    EXPECT_EQ(db.Insert(UncontendedFingerprint(device), uncontended), absl::OkStatus());
  }

  void ExpectPricedToday(const MeasuredSearch& search) const {
    const PricedMachine today = Ok(PriceMachine(request_.machine));
    const Evaluator evaluator = EvaluatorOn(today, model_.graph);
    const Nanos time = search.outcome.step.evaluation.time;
    EXPECT_EQ(Ok(EvaluatePlan(evaluator, search.outcome.plan)).step.evaluation.time, time);
    EXPECT_EQ(search.outcome.plan.prediction->time, time);
    for (const NamedStrategy& expert : ExpertStarts(model_.graph, today.machine->topology)) {
      EXPECT_LE(time, evaluator.Evaluate(expert.strategy).time) << expert.name;
    }
  }

  std::atomic<bool> stop_ = false;
  MeasuredSearchRequest request_;
  const TrainingModel model_ = Ok(LoadTrainingModel({"mlp_tiny", 64}));
};

TEST_F(MeasuredSearchTest, WhatDeclinesIsNamed) {
  request_.profile_seconds = 0;
  request_.plan.strategy = "rnn_placement";  // of a model without recurrent layers
  const absl::Status strategy = SearchAndMeasure(model_.graph, request_).status();
  EXPECT_TRUE(absl::StartsWith(strategy.message(), "strategy 'rnn_placement' declines: "))
      << strategy;
  if (IntegerProgramLacks() == nullptr) return;
  request_.plan.strategy.clear();
  request_.plan.search = "ilp";
  const absl::Status search = SearchAndMeasure(model_.graph, request_).status();
  EXPECT_TRUE(absl::StartsWith(search.message(), "search 'ilp' declines: ")) << search;
  EXPECT_TRUE(absl::StrContains(search.message(), IntegerProgramLacks())) << search;
}

TEST_F(MeasuredSearchTest, OutcomeIsPricedByAllThatWasMeasured) {
  for (uint64_t seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    MakeUpPrices(seed);
    request_.profile_seconds = 1;
    const MeasuredSearch search = Ok(SearchAndMeasure(model_.graph, request_));
    EXPECT_GT(search.measured, 0);
    ExpectPricedToday(search);
  }
}

// In the first profiling (before any search), at the next ones, and in searches.
TEST_F(MeasuredSearchTest, InterruptedOutcomeIsNotSlowerThanAnExpert) {
  for (int moment : {0, 3, 20}) {
    SCOPED_TRACE(absl::StrCat("after ", moment, " steps of profiling"));
    MakeUpPrices(static_cast<uint64_t>(moment));
    stop_ = false;
    request_.profile_seconds = 1;
    int steps = 0;
    request_.profiling.progress = [&](int64_t, int64_t, const std::string&) {
      if (steps++ == moment) stop_ = true;
    };
    const MeasuredSearch search = Ok(SearchAndMeasure(model_.graph, request_));
    EXPECT_TRUE(stop_ || steps <= moment);
    ExpectPricedToday(search);
  }
}

// A round that is interrupted keeps what the rounds before have found.
TEST_F(MeasuredSearchTest, LaterRoundsKeepThePlanOfEarlierOnes) {
  MakeUpPrices(5);
  request_.profile_seconds = 2;
  bool searched = false;
  request_.plan.options.progress = [&](const SearchProgress&) { searched = true; };
  request_.profiling.progress = [&](int64_t, int64_t, const std::string&) {
    if (searched) stop_ = true;
  };
  const MeasuredSearch search = Ok(SearchAndMeasure(model_.graph, request_));
  ExpectPricedToday(search);
  EXPECT_GE(search.outcome.search.evaluations, request_.plan.options.evaluations);
  EXPECT_EQ(search.outcome.plan.provenance.evaluations, search.outcome.search.evaluations);
}

// Plans for a machine that is only named cannot be measured: nothing is evaluated for a contest.
TEST_F(MeasuredSearchTest, NamedMachinesHaveNoRivals) {
  request_.measure_seconds = 1;
  request_.machine.machine = "p100-4x4";
  request_.machine.oversubscribe = false;
  EXPECT_TRUE(Ok(SearchAndMeasure(model_.graph, request_)).outcome.rivals.empty());
}

}  // namespace
}  // namespace partita

// Choice of the fastest of several plans by successive halving, with step times that are made up.
#include "tools/workflow/measured_choice.h"

#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

#include "cost_model/profile.h"
#include "tests/testing/ok.h"
#include "tools/workflow/step_ratio.h"

namespace partita {
namespace {

// Steps with a mean and relative deviations each: of a step, and of all of a round.
class MadeUpTimes : public StepTimer {
 public:
  struct Plan {
    double mean = 1e6;
    double deviation = 0, of_round = 0;
  };
  MadeUpTimes(std::vector<Plan> plans, uint64_t seed, int steps_of_round = 5)
      : plans_(std::move(plans)),
        steps_of_round_(steps_of_round),
        random_(seed),
        times_(plans_.size()),
        medians_(plans_.size()),
        dropped_(plans_.size()) {}

  absl::Status Round() override {
    ++rounds_;
    for (size_t k = 0; k < plans_.size(); ++k) {
      if (dropped_[k]) continue;
      const Plan& plan = plans_[k];
      double mean = plan.mean;
      if (plan.of_round > 0) mean *= std::normal_distribution<double>(1, plan.of_round)(random_);
      for (int step = 0; step < steps_of_round_; ++step) {
        std::normal_distribution<double> time(mean, plan.deviation * mean);
        times_[k].push_back(std::max<int64_t>(1, static_cast<int64_t>(time(random_))));
      }
      medians_[k].push_back(
          TimingOf(std::span(times_[k]).last(static_cast<size_t>(steps_of_round_))).median_ns);
    }
    return absl::OkStatus();
  }
  std::span<const int64_t> TimesOf(size_t contender) const override { return times_[contender]; }
  std::span<const int64_t> RoundsOf(size_t contender) const override { return medians_[contender]; }
  void Drop(size_t contender) override { dropped_[contender] = true; }
  int rounds() const { return rounds_; }
  bool dropped(size_t contender) const { return dropped_[contender]; }

 private:
  std::vector<Plan> plans_;
  const int steps_of_round_;
  std::mt19937_64 random_;
  std::vector<std::vector<int64_t>> times_, medians_;
  std::vector<bool> dropped_;
  int rounds_ = 0;
};

// Time without end.
const std::function<double()> kEndless = [] { return 0.0; };

TEST(MeasuredChoiceTest, FindsTheFastestWhateverWasPredicted) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<MadeUpTimes::Plan> plans;
    std::vector<Contender> contenders;
    const size_t count = 2 + random() % 7, fastest = random() % count;
    std::uniform_real_distribution<double> error(0.5, 2);
    for (size_t k = 0; k < count; ++k) {
      const double factor = k == fastest ? 1 : 1.1 + 0.1 * static_cast<double>(random() % 10);
      plans.push_back({1e6 * factor, 0.02});
      contenders.push_back(
          {"plan", random() % 2 == 0, Nanos(static_cast<int64_t>(1e6 * factor * error(random)))});
    }
    MadeUpTimes times(plans, seed);
    const MeasuredChoice choice = Ok(ChooseByMeasurement(contenders, kEndless, times));
    EXPECT_EQ(choice.chosen, fastest) << "seed " << seed;
    EXPECT_FALSE(choice.gave_way.has_value());
  }
}

TEST(MeasuredChoiceTest, SlowPlansAreDroppedEarly) {
  std::vector<MadeUpTimes::Plan> plans(8);
  std::vector<Contender> contenders(8);
  for (size_t k = 0; k < 8; ++k) {
    plans[k] = {1e6 * static_cast<double>(1 + k), 0.001};
    contenders[k].is_expert = k == 1;
  }
  MadeUpTimes times(plans, 1);
  const MeasuredChoice choice = Ok(ChooseByMeasurement(contenders, kEndless, times));
  EXPECT_EQ(choice.chosen, 0u);
  EXPECT_TRUE(choice.is_sure);
  for (size_t k = 4; k < 8; ++k) {
    EXPECT_TRUE(times.dropped(k));
    EXPECT_EQ(times.TimesOf(k).size(), kFirstSteps);
  }
  EXPECT_FALSE(times.dropped(1)) << "the best expert stays";
}

TEST(MeasuredChoiceTest, WhatIsNotFasterBeyondTheSpreadGivesWayToTheExpert) {
  int gave_way = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    MadeUpTimes times({{1e6, 0.2}, {1e6, 0.2}}, seed);
    const std::vector<Contender> contenders = {{"searched", false}, {"expert", true}};
    const MeasuredChoice choice = Ok(ChooseByMeasurement(contenders, kEndless, times));
    gave_way += choice.gave_way.has_value();
    if (choice.gave_way.has_value()) {
      EXPECT_EQ(choice.chosen, 1u);
      EXPECT_FALSE(choice.is_sure);
    }
    EXPECT_LE(times.TimesOf(0).size(), kMostSteps);
  }
  EXPECT_GT(gave_way, 10);
}

// Steps of a round are alike by chance, and no proof. What is 5 % faster is found to be so even then.
TEST(MeasuredChoiceTest, RoundsCountNotTheirSteps) {
  const std::vector<Contender> contenders = {{"searched", false}, {"expert", true}};
  int equal = 0, faster = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    MadeUpTimes alike({{1e6, 0.01, 0.025}, {1e6, 0.01, 0.025}}, seed);
    equal += Ok(ChooseByMeasurement(contenders, kEndless, alike)).chosen == 0;
    MadeUpTimes apart({{0.95e6, 0.01, 0.025}, {1e6, 0.01, 0.025}}, seed);
    faster += Ok(ChooseByMeasurement(contenders, kEndless, apart)).chosen == 0;
  }
  EXPECT_LE(equal, 30);
  EXPECT_GE(faster, 180);
}

// One step each shows nothing: the expert is taken, and the order is not sure.
TEST(MeasuredChoiceTest, AFewStepsAreNoProof) {
  class OneStep : public StepTimer {
   public:
    absl::Status Round() override {
      for (size_t k = 0; k < 2; ++k) times_[k].push_back(k == 0 ? 1000 : 2000);
      return absl::OkStatus();
    }
    std::span<const int64_t> TimesOf(size_t contender) const override { return times_[contender]; }
    std::span<const int64_t> RoundsOf(size_t contender) const override { return times_[contender]; }
    void Drop(size_t) override {}

   private:
    std::vector<int64_t> times_[2];
  };
  OneStep times;
  const std::vector<Contender> contenders = {{"searched", false}, {"expert", true}};
  const MeasuredChoice choice =
      Ok(ChooseByMeasurement(contenders, [&] { return times.TimesOf(0).empty() ? 0 : 1; }, times));
  EXPECT_EQ(choice.chosen, 1u);
  EXPECT_EQ(choice.gave_way, 0u);
  EXPECT_FALSE(choice.is_sure);
}

TEST(MeasuredChoiceTest, EndsWhenTheTimeIsUp) {
  for (int rounds : {0, 1, 3}) {
    MadeUpTimes times({{3e6, 0.01}, {2e6, 0.01}, {1e6, 0.01}}, 1);
    const std::vector<Contender> contenders = {{"searched", false}, {"a", true}, {"b", true}};
    const MeasuredChoice choice = Ok(
        ChooseByMeasurement(contenders, [&] { return times.rounds() >= rounds ? 1 : 0; }, times));
    EXPECT_EQ(times.rounds(), rounds);
    EXPECT_EQ(choice.chosen, rounds == 0 ? 0u : 2u);
    EXPECT_EQ(choice.timings[0].has_value(), rounds > 0);
  }
}

// Six plans, and time for 16 rounds: the two that are left have made more steps than those that were
// dropped, and these more than none.
TEST(MeasuredChoiceTest, LevelsShareTheTime) {
  constexpr int kRounds = 16;
  std::vector<MadeUpTimes::Plan> plans;
  std::vector<Contender> contenders;
  for (size_t k = 0; k < 6; ++k) {
    plans.push_back({1e6 * (1 + 0.1 * static_cast<double>(k)), 0.01});
    contenders.push_back({"plan", k == 1});
  }
  MadeUpTimes times(plans, 3, 1);
  const auto part = [&] { return times.rounds() / static_cast<double>(kRounds); };
  const MeasuredChoice choice = Ok(ChooseByMeasurement(contenders, part, times));
  EXPECT_EQ(choice.chosen, 0u);
  EXPECT_FALSE(times.dropped(0));
  EXPECT_FALSE(times.dropped(1));
  EXPECT_EQ(times.TimesOf(0).size(), times.TimesOf(1).size());
  EXPECT_GE(times.TimesOf(2).size(), 10u) << "left after the first level";
  for (size_t k = 3; k < 6; ++k) {
    EXPECT_TRUE(times.dropped(k));
    EXPECT_GE(times.TimesOf(k).size(), 6u);
    EXPECT_LE(times.TimesOf(k).size(), 7u);
  }
}

// Steps that differ by a third say little after three rounds: prices say which of two experts it is.
TEST(MeasuredChoiceTest, PricesCountWhereFewStepsDiffer) {
  int by_prices = 0, without = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (const bool has_prices : {true, false}) {
      MadeUpTimes times({{1e6, 0.3}, {1.1e6, 0.3}}, seed, 1);
      std::vector<Contender> contenders = {{"a", true}, {"b", true}};
      for (size_t k = 0; has_prices && k < 2; ++k)
        contenders[k].predicted = Nanos(k == 0 ? 50 : 55);
      const auto part = [&] { return times.rounds() / 3.0; };
      const MeasuredChoice choice = Ok(ChooseByMeasurement(contenders, part, times));
      (has_prices ? by_prices : without) += choice.chosen == 0;
    }
  }
  EXPECT_GT(by_prices, 190);
  EXPECT_LT(without, 150);
}

// What slows both plans of a pair does not show in their ratio.
TEST(StepRatioTest, IsOfNeighbours) {
  const std::vector<int64_t> others = {100, 200, 400, 100, 300, 100, 100};
  std::vector<int64_t> steps;
  for (int64_t other : others) steps.push_back(2 * other);
  const StepRatio twice = *RatioOf(steps, others);
  EXPECT_DOUBLE_EQ(twice.median, 2);
  EXPECT_DOUBLE_EQ(twice.low, 2);
  EXPECT_DOUBLE_EQ(twice.high, 2);
  const StepRatio itself = *RatioOf(others, others);
  EXPECT_EQ(itself.low, 1);
  EXPECT_EQ(itself.high, 1);
  const StepRatio few = *RatioOf(std::vector<int64_t>{90, 110, 130}, others);
  EXPECT_NEAR(few.median, 0.55, 1e-6);
  EXPECT_NEAR(few.low, 0.325, 1e-6);
  EXPECT_NEAR(few.high, 0.9, 1e-6);
  EXPECT_FALSE(RatioOf({}, others).has_value());
}

}  // namespace
}  // namespace partita

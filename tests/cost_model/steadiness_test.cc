// Which medians are believed, and what a price that rests on others is called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "cost_model/combinators.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "cost_model/measured_cost.h"
#include "cost_model/profile.h"
#include "cost_model/task_costs.h"
#include "tests/cost_model/signatures.h"

namespace partita {
namespace {

using Samples = std::vector<int64_t>;

Steadiness Of(const Samples& samples) { return SteadinessOf(TimingOf(samples)); }

TEST(SteadinessTest, FewSamplesSayNothing) {
  EXPECT_EQ(Of({5'000'000}), Steadiness::kUnknown);
  EXPECT_EQ(Of({5'000'000, 5'000'000}), Steadiness::kUnknown);
  EXPECT_EQ(Of({5'000'000, 5'000'000, 5'000'000}), Steadiness::kSteady);
}

TEST(SteadinessTest, AQuarterOfTheMedianIsCloseEnough) {
  EXPECT_EQ(Of({875'000, 1'000'000, 1'125'000}), Steadiness::kSteady);
  EXPECT_EQ(Of({875'000, 1'000'000, 1'125'001}), Steadiness::kUnsteady);
  EXPECT_EQ(Of({1, 500, 1001}), Steadiness::kSteady) << "a microsecond is the clock's";
  EXPECT_EQ(Of({1, 500, 1002}), Steadiness::kUnsteady);
}

TEST(SteadinessTest, OutliersDoNotMatterAndTwoTimesDo) {
  Samples samples(9, 2'700'000);
  samples[3] = 90'000'000;
  samples[7] = 1;
  EXPECT_EQ(Of(samples), Steadiness::kSteady);
  // An exchange of four bytes whose ranks meet at once or a scheduler's slice later.
  EXPECT_EQ(Of({2'700'000, 7'700'000, 2'700'000, 7'700'000, 2'800'000, 7'600'000, 2'700'000,
                7'700'000, 5'000'000}),
            Steadiness::kUnsteady);
}

// However many samples, half of each: which of the two the median is remains open.
TEST(SteadinessTest, MoreSamplesOfTwoTimesAreNoSteadier) {
  for (size_t count : {8, 16, 32, 64}) {
    Samples samples;
    for (size_t k = 0; k < count; ++k) samples.push_back(k % 2 == 0 ? 1'000'000 : 3'000'000);
    const Timing timing = TimingOf(samples);
    EXPECT_EQ(timing.low_ns, 1'000'000);
    EXPECT_EQ(timing.high_ns, 3'000'000);
    EXPECT_EQ(SteadinessOf(timing), Steadiness::kUnsteady) << count;
  }
}

// The bounds hold the true median in about 95 of 100 cases, whatever the distribution.
TEST(SteadinessTest, BoundsHoldTheMedianOfSkewedTimes) {
  constexpr int kTrials = 2000;
  const double median = 1e6 * std::log(2.0);
  for (size_t count : {6, 9, 18, 27, 64}) {
    std::mt19937_64 random(count);
    std::exponential_distribution<double> times(1e-6);
    int held = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      Samples samples;
      for (size_t k = 0; k < count; ++k) {
        samples.push_back(1 + static_cast<int64_t>(times(random)));
      }
      const Timing timing = TimingOf(samples);
      held += static_cast<double>(timing.low_ns) <= median &&
              median <= static_cast<double>(timing.high_ns);
    }
    EXPECT_GT(held, kTrials * 92 / 100) << count;
    EXPECT_LT(held, kTrials * 99 / 100) << count;
  }
}

// Of noise with one mode, more samples tell more.
TEST(SteadinessTest, RepeatingSettlesWhatWasDisturbedForAWhile) {
  Samples samples = {1'400'000, 1'500'000, 1'450'000, 1'000'000, 1'010'000,
                     1'020'000, 990'000,   1'480'000, 1'005'000};
  EXPECT_EQ(Of(samples), Steadiness::kUnsteady);
  for (int k = 0; k < 18; ++k) samples.push_back(1'000'000 + 1000 * k);
  EXPECT_EQ(Of(samples), Steadiness::kSteady);
}

ProfileRecord Timed(const KernelSignature& signature, Samples samples) {
  ProfileRecord record = RecordOf(signature);
  record.samples_ns = std::move(samples);
  return record;
}

const Samples kTwoTimes = {2'000'000, 6'000'000, 2'000'000, 6'000'000, 2'000'000, 6'000'000};
const Samples kOneTime = {4'000'000, 4'000'001, 4'000'002};

CostSource SourceOf(const Samples& busy, const Samples& uncontended) {
  const auto machine = std::make_shared<const Machine>(FindMachine("p100-4x4", 1).value());
  const auto profiles = [](const Samples& samples) {
    const ProfileRecord record = Timed(ConvForward(8), samples);
    return DeviceProfiles(
        1, std::make_shared<const Profile>(DeviceFingerprint{}, std::span(&record, 1)));
  };
  const auto model = MakeDefaultCostModel(
      machine, profiles(busy), uncontended.empty() ? DeviceProfiles(1) : profiles(uncontended));
  return model->KernelCost(ConvForward(8), DeviceId(0))->source;
}

TEST(SteadinessTest, PricesOfUnsteadyRecordsAreUnsteady) {
  EXPECT_EQ(SourceOf(kOneTime, {}), CostSource::kMeasured);
  EXPECT_EQ(SourceOf(kTwoTimes, {}), CostSource::kUnsteady);
  EXPECT_EQ(SourceOf({4'000'000}, {}), CostSource::kUnsteady);
  EXPECT_EQ(SourceOf(kOneTime, kOneTime), CostSource::kMeasured);
  EXPECT_EQ(SourceOf(kOneTime, kTwoTimes), CostSource::kUnsteady);
  EXPECT_EQ(SourceOf(kTwoTimes, kOneTime), CostSource::kUnsteady);
  EXPECT_EQ(Name(CostSource::kUnsteady), "unsteady");
  EXPECT_EQ(CountSources({{Nanos(1), CostSource::kUnsteady}, {Nanos(1), CostSource::kMeasured}}),
            (SourceCounts{.measured = 1, .unsteady = 1}));
}

}  // namespace
}  // namespace partita

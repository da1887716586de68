// How profiling fills a database: in passes, resumable, and with samples added on request.
#include "tools/workflow/profiling/profiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cost_model/machine.h"
#include "cost_model/profile_db.h"
#include "planner/expert/expert_strategies.h"
#include "planner/planner.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

using Samples = std::map<std::string, std::vector<int64_t>>;  // by signature

// Data parallel training of LeNet on two devices, where kernels run beside others and uncontended.
class ProfilingTest : public testing::Test {
 protected:
  void SetUp() override {
    request_.profile = absl::StrCat(
        testing::TempDir(), testing::UnitTest::GetInstance()->current_test_info()->name(), ".db");
    std::remove(request_.profile.c_str());
    request_.seconds = 600;  // more than it takes on a machine that is busy with other things
    request_.most_repeats = 0;
    MachineRequest machine;
    machine.devices = 2;
    machine.oversubscribe = true;
    machine.profile = request_.profile;
    auto priced = PriceMachine(machine);
    ASSERT_TRUE(priced.ok()) << priced.status();
    priced_ = *std::move(priced);
    auto model = LoadTrainingModel({"lenet", 16});
    ASSERT_TRUE(model.ok()) << model.status();
    const Evaluator evaluator(model->graph, priced_.machine->topology, *priced_.model,
                              {.choices = DefaultChoices(priced_), .sizes = SizesOn(priced_)});
    PlanRequest plan;
    plan.strategy = "data_parallel";
    const auto outcome = MakePlan(evaluator, plan);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    wanted_ = SignaturesOf(outcome->step.tasks);
  }
  void TearDown() override { std::remove(request_.profile.c_str()); }

  ProfilingResult Measure() const {
    const auto result = ProfileSignatures(wanted_, priced_, request_);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : ProfilingResult();
  }

  Samples Known(bool uncontended) const {
    const auto db = ProfileDb::Open(request_.profile, ProfileDb::Mode::kRead);
    EXPECT_TRUE(db.ok()) << db.status();
    DeviceFingerprint device = priced_.FingerprintOf(DeviceId(0));
    if (uncontended) device = UncontendedFingerprint(device);
    const auto records = db->Records(device);
    EXPECT_TRUE(records.ok()) << records.status();
    Samples samples;
    for (const ProfileRecord& record : *records) samples[record.signature] = record.samples_ns;
    return samples;
  }

  std::vector<std::string> Kernels() const {
    std::vector<std::string> keys;
    for (const KernelWork& work : wanted_.kernels) keys.push_back(ToString(work.signature));
    return keys;
  }

  ProfilingRequest request_;
  PricedMachine priced_;
  WantedSignatures wanted_;
};

TEST_F(ProfilingTest, AddedSamplesComeBehindThoseThatAreThere) {
  request_.samples = 3;
  const ProfilingResult first = Measure();
  EXPECT_TRUE(first.complete);
  EXPECT_EQ(first.known, 0);
  EXPECT_EQ(first.measured, first.wanted);
  const Samples before = Known(false), alone_before = Known(true);

  const ProfilingResult untouched = Measure();
  EXPECT_EQ(untouched.known, untouched.wanted);
  EXPECT_EQ(untouched.measured, 0);
  EXPECT_EQ(Known(false), before);

  request_.add_samples = true;
  const ProfilingResult second = Measure();
  EXPECT_TRUE(second.complete);
  EXPECT_GT(second.measured, 0);
  const Samples after = Known(false), alone_after = Known(true);
  ASSERT_EQ(after.size(), before.size());
  for (const std::string& key : Kernels()) {
    SCOPED_TRACE(key);
    for (const auto& [old, all] : {std::pair(before.at(key), after.at(key)),
                                   std::pair(alone_before.at(key), alone_after.at(key))}) {
      ASSERT_GT(all.size(), old.size());
      EXPECT_TRUE(std::equal(old.begin(), old.end(), all.begin())) << "the old ones are kept";
    }
  }
}

TEST_F(ProfilingTest, OnlyTheLatestSamplesAreKept) {
  request_.samples = 1;  // of two devices
  request_.most_samples = 3;
  Measure();
  const Samples first = Known(false);
  request_.add_samples = true;
  Measure();
  const Samples second = Known(false);
  for (const std::string& key : Kernels()) {
    ASSERT_EQ(first.at(key).size(), 2u) << key;
    ASSERT_EQ(second.at(key).size(), 3u) << key;
    EXPECT_EQ(second.at(key)[0], first.at(key)[1]) << key;
  }
}

TEST_F(ProfilingTest, WithoutTimeNothingIsMeasured) {
  for (const double seconds : {0.0, 1e-9}) {
    request_.seconds = seconds;
    const ProfilingResult result = Measure();
    EXPECT_FALSE(result.complete);
    EXPECT_EQ(result.measured, 0);
    EXPECT_GT(result.wanted, 0);
    EXPECT_TRUE(Known(false).empty());
  }
  request_.seconds = 60;
  request_.samples = 1;
  EXPECT_TRUE(Measure().complete);
  request_.add_samples = true;
  request_.seconds = 0;
  EXPECT_FALSE(Measure().complete) << "nothing was added";
}

TEST_F(ProfilingTest, EveryPassKeepsWhatTheOnesBeforeFound) {
  std::atomic<bool> stop = false;
  std::map<std::string, int> reports;
  std::vector<int64_t> done;
  request_.stop = &stop;
  request_.progress = [&](int64_t now, int64_t wanted, const std::string& what) {
    EXPECT_LE(now, wanted);
    done.push_back(now);
    if (++reports[what] == 2) stop = true;  // the second pass has begun
  };
  const ProfilingResult result = Measure();
  EXPECT_TRUE(result.complete) << "the first pass reached everything";
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  const Samples first = Known(false);
  EXPECT_EQ(static_cast<int64_t>(first.size()), result.wanted);
  for (const std::string& key : Kernels()) {
    EXPECT_LE(first.at(key).size(), 2u * static_cast<size_t>(request_.samples_per_pass)) << key;
  }

  stop = false;
  request_.progress = nullptr;
  EXPECT_EQ(Measure().known, result.wanted) << "what has samples is known";
  request_.add_samples = true;
  Measure();
  const Samples all = Known(false);
  for (const std::string& key : Kernels()) {
    EXPECT_TRUE(std::equal(first.at(key).begin(), first.at(key).end(), all.at(key).begin())) << key;
  }
}

// A mixed machine's signatures are in several precisions.
TEST_F(ProfilingTest, ProductsAreMeasuredInThePrecisionOfTheDevices) {
  request_.samples = 1;
  const ProfilingResult plain = Measure();
  EXPECT_TRUE(plain.complete);
  for (KernelWork& kernel : wanted_.kernels) {
    kernel.signature = InPrecision(std::move(kernel.signature), Precision::kTf32);
  }
  const ProfilingResult again = Measure();
  EXPECT_EQ(again.known, plain.measured);
  EXPECT_EQ(again.measured, 0);
}

TEST_F(ProfilingTest, CoresAreDeterministicWhateverIsWanted) {
  request_.samples = 1;
  const ProfilingResult plain = Measure();
  EXPECT_TRUE(plain.complete);
  for (KernelWork& kernel : wanted_.kernels) {
    kernel.signature = WithDeterminism(std::move(kernel.signature), false);
  }
  const ProfilingResult again = Measure();
  EXPECT_EQ(again.known, plain.measured);
  EXPECT_EQ(again.measured, 0);
}

}  // namespace
}  // namespace partita

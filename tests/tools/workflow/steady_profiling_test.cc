// How profiling measures again what its samples leave open; by profilers with made-up clocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cost_model/profile_db.h"
#include "planner/planner.h"
#include "tools/workflow/profiling/profiling.h"
#include "tools/workflow/profiling/profiling_session.h"
#include "tools/workflow/task_errors.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

// What every task takes: a millisecond, or in turn one and three; until `settled_after` samples of
// it were taken, after which it is one. Of communication, and of kernels beside idle devices,
// alike.
struct Clock {
  bool two_times = false;
  int64_t settled_after = 1 << 20;
  std::string only;                        // of the task with this signature; empty: of all
  std::map<std::string, int64_t> samples;  // taken, by signature

  std::vector<int64_t> Take(const std::string& signature, int count) {
    std::vector<int64_t> taken;
    for (int k = 0; k < count; ++k) {
      const int64_t number = samples[signature]++;
      const bool slow = two_times && (only.empty() || only == signature) && number % 2 == 1 &&
                        number < settled_after;
      taken.push_back(slow ? 3'000'000 : 1'000'000);
    }
    return taken;
  }
};

class MadeUpKernels : public KernelProfiler {
 public:
  explicit MadeUpKernels(Clock& clock) : clock_(clock) {}
  absl::StatusOr<std::vector<Measurement>> Measure(std::span<const ProfiledWork> batch,
                                                   const ProfilerOptions& options) override {
    std::vector<Measurement> all;
    for (const ProfiledWork& work : batch) {
      Measurement& one = all.emplace_back();
      one.samples_ns = clock_.Take(RecordOfWork(work).signature, options.samples);
      one.uncontended_ns = one.samples_ns;
    }
    return all;
  }

 private:
  Clock& clock_;
};

class MadeUpLinks : public LinkProfiler {
 public:
  explicit MadeUpLinks(Clock& clock) : clock_(clock) {}
  absl::StatusOr<Measurement> Measure(const TaskBody& body,
                                      const ProfilerOptions& options) override {
    Measurement one;
    one.samples_ns = clock_.Take(RecordOfCommunication(body).signature, options.samples);
    one.uncontended_ns = one.samples_ns;
    return one;
  }
  absl::StatusOr<Measurement> MeasureStep(int tasks, const ProfilerOptions& options) override {
    Measurement one;
    one.samples_ns = clock_.Take(RecordOfStep(tasks).signature, options.samples);
    return one;
  }

 private:
  Clock& clock_;
};

// Data parallel training of a small network on two devices.
class SteadyProfilingTest : public testing::Test {
 protected:
  void SetUp() override {
    request_.profile = absl::StrCat(
        testing::TempDir(), testing::UnitTest::GetInstance()->current_test_info()->name(), ".db");
    std::remove(request_.profile.c_str());
    request_.seconds = 600;
    request_.open_kernels = [this](auto) { return std::make_unique<MadeUpKernels>(clock_); };
    request_.open_links = [this](auto) { return std::make_unique<MadeUpLinks>(clock_); };
    model_ = std::make_unique<TrainingModel>(LoadTrainingModel({"mlp_tiny", 8}).value());
    wanted_ = SignaturesOf(Plan().step.tasks);
  }
  void TearDown() override { std::remove(request_.profile.c_str()); }

  PricedMachine Priced() const {
    MachineRequest machine;
    machine.devices = 2;
    machine.oversubscribe = true;
    machine.profile = request_.profile;
    return PriceMachine(machine).value();
  }

  PlanOutcome Plan() const {
    const PricedMachine priced = Priced();
    const Evaluator evaluator(model_->graph, priced.machine->topology, *priced.model,
                              {.choices = DefaultChoices(priced), .sizes = SizesOn(priced)});
    PlanRequest plan;
    plan.strategy = "data_parallel";
    return MakePlan(evaluator, plan).value();
  }

  ProfilingResult Measure() {
    const auto result = ProfileSignatures(wanted_, Priced(), request_);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value();
  }

  std::vector<ProfileRecord> Records() const {
    const PricedMachine priced = Priced();
    return ProfileDb::Open(request_.profile, ProfileDb::Mode::kRead)
        ->Records(priced.FingerprintOf(DeviceId(0)))
        .value();
  }

  Clock clock_;
  ProfilingRequest request_;
  std::unique_ptr<TrainingModel> model_;
  WantedSignatures wanted_;
};

TEST_F(SteadyProfilingTest, SteadyTasksAreMeasuredOnce) {
  const ProfilingResult result = Measure();
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.measured, result.wanted);
  EXPECT_EQ(result.unsteady, 0);
  for (const ProfileRecord& record : Records()) {
    EXPECT_EQ(record.samples_ns.size() % static_cast<size_t>(request_.samples), 0u);
    EXPECT_EQ(record.repeats, 0) << record.signature;
  }
  EXPECT_EQ(Measure().known, result.wanted);
  EXPECT_EQ(SharesOf(Plan().step).measured, 1);
}

TEST_F(SteadyProfilingTest, TasksOfTwoTimesAreRepeatedToTheLimitAndMarked) {
  clock_.two_times = true;
  const ProfilingResult result = Measure();
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.measured, result.wanted) << "each counts once";
  EXPECT_EQ(result.unsteady, result.wanted);
  for (const ProfileRecord& record : Records()) {
    EXPECT_EQ(record.repeats, request_.most_repeats) << record.signature;
    if (record.kind == RecordKind::kStep) continue;  // has three times as many
    EXPECT_EQ(record.samples_ns.size(),
              static_cast<size_t>(request_.samples * (1 + request_.most_repeats)));
  }
  const std::map<std::string, int64_t> before = clock_.samples;
  const ProfilingResult again = Measure();
  EXPECT_EQ(again.known, result.wanted) << "the limit holds for later calls too";
  EXPECT_EQ(again.repeated, 0);
  EXPECT_EQ(again.unsteady, result.wanted);
  EXPECT_EQ(clock_.samples, before);
}

TEST_F(SteadyProfilingTest, OnlyTheUnsteadyOneIsRepeated) {
  clock_.two_times = true;
  clock_.only = ToString(wanted_.kernels[0].signature);
  const ProfilingResult result = Measure();
  EXPECT_EQ(result.unsteady, 1);
  for (const ProfileRecord& record : Records()) {
    EXPECT_EQ(record.repeats, record.signature == clock_.only ? request_.most_repeats : 0);
  }
}

TEST_F(SteadyProfilingTest, ADisturbanceThatEndsIsRepeatedAway) {
  clock_.two_times = true;
  clock_.settled_after = request_.samples;
  const ProfilingResult result = Measure();
  EXPECT_EQ(result.unsteady, 0);
  for (const ProfileRecord& record : Records()) {
    if (record.kind == RecordKind::kStep) continue;
    EXPECT_EQ(record.repeats, 1) << record.signature;
  }
  EXPECT_EQ(SharesOf(Plan().step).measured, 1);
}

TEST_F(SteadyProfilingTest, WhatTimeDidNotAllowIsRepeatedByTheNextCall) {
  clock_.two_times = true;
  std::atomic<bool> stop = false;
  request_.stop = &stop;
  request_.open_links = [&](auto) -> absl::StatusOr<std::unique_ptr<LinkProfiler>> {
    static int opened = 0;
    stop = ++opened == 2;  // in the second pass of three
    return std::make_unique<MadeUpLinks>(clock_);
  };
  const ProfilingResult first = Measure();
  EXPECT_GT(first.unsteady, 0);
  for (const ProfileRecord& record : Records()) EXPECT_EQ(record.repeats, 0) << record.signature;
  stop = false;
  request_.stop = nullptr;
  const ProfilingResult second = Measure();
  EXPECT_EQ(second.known, 0);
  EXPECT_EQ(second.repeated, first.measured);
  EXPECT_EQ(second.measured, second.wanted);
  for (const ProfileRecord& record : Records()) {
    EXPECT_GE(record.repeats, record.kind == RecordKind::kStep ? 1 : request_.most_repeats);
  }
}

TEST_F(SteadyProfilingTest, SureIsTheShareOfTimeOfSteadyMeasurements) {
  clock_.two_times = true;
  clock_.only = ToString(wanted_.kernels[0].signature);
  Measure();
  const PlanOutcome plan = Plan();
  double unsteady = 0, all = 0;
  for (size_t t = 0; t < plan.step.costs.size(); ++t) {
    const auto time = static_cast<double>(plan.step.durations[t].value());
    all += time;
    if (plan.step.costs[t].source == CostSource::kUnsteady) unsteady += time;
  }
  const SourceShares shares = SharesOf(plan.step);
  EXPECT_GT(shares.unsteady, 0);
  EXPECT_DOUBLE_EQ(shares.unsteady, unsteady / all);
  EXPECT_NEAR(shares.measured + shares.unsteady, 1, 1e-12);
  EXPECT_GE(plan.step.evaluation.sources.unsteady, 2) << "on each device";
}

TEST(SourcesTextTest, NamesWhatThereIs) {
  EXPECT_EQ(SourcesText({.measured = 70, .roofline = 8}, {.measured = 0.98, .roofline = 0.02}),
            "70 tasks by measurement (98 % of the time), 8 by roofline (2 %)");
  EXPECT_EQ(SourcesText({.unsteady = 1}, {.unsteady = 1}),
            "1 task by unsteady measurement (100 % of the time)");
}

}  // namespace
}  // namespace partita

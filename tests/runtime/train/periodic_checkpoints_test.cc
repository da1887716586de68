#include "runtime/train/periodic_checkpoints.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/train/checkpoint_family.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/runtime/train/digit_training.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Waits for what another thread does; false after a time that no step takes.
bool Soon(const std::function<bool()>& holds) {
  for (int tries = 0; tries < 10000 && !holds(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return holds();
}

// What would have been written: "step" or "best", and after which step.
struct Written {
  std::string path;
  TrainingState state;
  std::optional<CheckpointMetric> metric;
};

class PeriodicCheckpointsTest : public ::testing::Test {
 protected:
  PeriodicCheckpoints::Options Every(int64_t steps, double seconds = 0) {
    PeriodicCheckpoints::Options options;
    options.schedule = {.name = "n", .every_steps = steps, .every_seconds = seconds, .keep = 100};
    options.write = [this](const std::string& path, const Graph&, const TrainingState& state,
                           const std::optional<CheckpointMetric>& metric) {
      if (before_write) before_write(state.step);
      const std::lock_guard lock(mutex_);
      written.push_back({path, state, metric});
      return absl::OkStatus();
    };
    options.on_report = [this](const CheckpointReport& report) { reports.push_back(report); };
    return options;
  }
  // Trains ten steps; the state after the last.
  TrainingState Train(PeriodicCheckpoints* checkpoints, TrainerOptions options = kTenSteps) {
    TrainingRun run(DigitModel(16), 1);
    options.checkpoints = checkpoints;
    options.on_step = [this](const StepReport& report) { steps_done = report.step; };
    const auto trainer =
        run.MakeTrainer(Digits(64, DataSplit::kTrain), options, run.Start(), evaluation_of(run));
    EXPECT_EQ(trainer->Run(), absl::OkStatus());
    if (checkpoints != nullptr) checkpoints->Finish();
    return ModelWriter::Get(trainer->State());
  }
  std::vector<int64_t> StepsWritten(const std::string& to) const {
    std::vector<int64_t> steps;
    for (const Written& file : written) {
      if (file.path.find(to) != std::string::npos) steps.push_back(file.state.step);
    }
    return steps;
  }

  const Graph graph_ = ModelWriter::Get(BuildTrainingGraph(DigitModel(16), {}));
  std::function<void(int64_t step)> before_write;
  std::function<EvaluationData(TrainingRun&)> evaluation_of = [](TrainingRun&) {
    return EvaluationData{};
  };
  std::atomic<int64_t> steps_done = 0;
  std::mutex mutex_;
  std::vector<Written> written;
  std::vector<CheckpointReport> reports;
};

// The writer holds the state of step 3 until step 5 is done.
TEST_F(PeriodicCheckpointsTest, StepsGoOnWhileAStateIsWrittenWhichStaysAsItWas) {
  bool went_on = false;
  before_write = [&](int64_t step) {
    if (step == 3) went_on = Soon([&] { return steps_done >= 5; });
  };
  PeriodicCheckpoints checkpoints(graph_, Every(3));
  Train(&checkpoints);
  EXPECT_TRUE(went_on);
  EXPECT_THAT(StepsWritten(".step-"), ElementsAre(3, 6, 9));
  TrainerOptions three = kTenSteps;
  three.steps = 3;
  EXPECT_EQ(written[0].state, Train(nullptr, three));
  EXPECT_EQ(checkpoints.failed(), 0);
}

TEST_F(PeriodicCheckpointsTest, OneWriteIsInFlightAndASaveOfStepsWaitsForIt) {
  std::atomic<int> in_flight = 0, most = 0;
  before_write = [&](int64_t) {
    most = std::max<int>(most, ++in_flight);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --in_flight;
  };
  PeriodicCheckpoints checkpoints(graph_, Every(1));
  Train(&checkpoints);
  EXPECT_EQ(most, 1);
  EXPECT_THAT(StepsWritten(".step-"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_GT(checkpoints.waited_ns(), 0);
}

TEST_F(PeriodicCheckpointsTest, ASaveByTheClockIsPutOffUntilTheOneBeforeIsDone) {
  before_write = [&](int64_t step) {
    Soon([&] { return steps_done >= std::min<int64_t>(step + 3, 10); });
  };
  PeriodicCheckpoints checkpoints(graph_, Every(0, 1e-9));
  Train(&checkpoints);
  const std::vector<int64_t> steps = StepsWritten(".step-");
  ASSERT_GE(steps.size(), 2u);
  EXPECT_EQ(steps[0], 1);
  for (size_t k = 1; k < steps.size(); ++k) {
    EXPECT_GE(steps[k], std::min<int64_t>(steps[k - 1] + 3, 10));
  }
}

TEST_F(PeriodicCheckpointsTest, TheBestIsThatOfTheHighestAccuracyAndTheFirstOfEqualOnes) {
  auto options = Every(100);
  options.evaluates = true;
  options.best = CheckpointMetric{"evaluation accuracy", 0.2};
  PeriodicCheckpoints checkpoints(graph_, std::move(options));
  TrainingState state;
  for (const double accuracy : {0.1, 0.2, 0.5, 0.4, 0.5, 0.6}) {
    ++state.step;
    checkpoints.AddLoss(1);
    checkpoints.AddEvaluation({.samples = 10, .loss = 1, .accuracy = accuracy});
    if (checkpoints.Due(state.step)) checkpoints.Save(state);
  }
  checkpoints.Finish();
  EXPECT_THAT(StepsWritten(".best"), ElementsAre(3, 6));
  EXPECT_EQ(written[1].metric, (CheckpointMetric{"evaluation accuracy", 0.6}));
  ASSERT_TRUE(checkpoints.best().has_value());
  EXPECT_EQ(checkpoints.best()->step, 6);
}

TEST_F(PeriodicCheckpointsTest, WithoutEvaluationsTheBestIsThatOfTheLowestMeanLossBetweenSaves) {
  PeriodicCheckpoints checkpoints(graph_, Every(2));
  TrainingState state;
  for (const double loss : {3, 2, 1, 2, 2, 3, 0, 1}) {
    ++state.step;
    checkpoints.AddLoss(loss);
    if (checkpoints.Due(state.step)) checkpoints.Save(state);
  }
  checkpoints.Finish();
  EXPECT_THAT(StepsWritten(".step-"), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(StepsWritten(".best"), ElementsAre(2, 4, 8));
  EXPECT_EQ(written.back().metric, (CheckpointMetric{"mean training loss", 0.5}));
}

TEST_F(PeriodicCheckpointsTest, ATrainerOffersItsEvaluations) {
  const auto source = Digits(40, DataSplit::kEval);
  evaluation_of = [&](TrainingRun& run) {
    return EvaluationData{.evaluation = run.evaluation.get(), .data = {.source = source}};
  };
  auto with_evaluations = Every(4);
  with_evaluations.evaluates = true;
  PeriodicCheckpoints checkpoints(graph_, std::move(with_evaluations));
  TrainerOptions options = kTenSteps;
  options.evaluate_every = 3;
  std::vector<std::pair<int64_t, double>> accuracies;
  options.on_evaluation = [&](int64_t step, const EvaluationResult& result) {
    accuracies.emplace_back(step, result.accuracy);
  };
  Train(&checkpoints, options);
  EXPECT_THAT(StepsWritten(".step-"), ElementsAre(4, 8));
  std::vector<int64_t> better;
  double best = -1;
  for (const auto& [step, accuracy] : accuracies) {
    if (accuracy > best) better.push_back(step);
    best = std::max(best, accuracy);
  }
  EXPECT_EQ(accuracies.size(), 4u) << "steps 3, 6, 9 and 10";
  EXPECT_EQ(StepsWritten(".best"), better);
}

// A full disk at step 4, and while the best is written at step 6.
TEST_F(PeriodicCheckpointsTest, WhatCannotBeWrittenIsReportedAndTrainingGoesOn) {
  auto options = Every(2);
  options.write = [&, good = options.write](const std::string& path, const Graph& graph,
                                            const TrainingState& state,
                                            const std::optional<CheckpointMetric>& metric) {
    const bool best = metric.has_value();
    if (state.step == (best ? 6 : 4)) return absl::UnavailableError("the disk is full");
    return good(path, graph, state, metric);
  };
  PeriodicCheckpoints checkpoints(graph_, std::move(options));
  TrainingState state;
  for (const double loss : {5, 5, 4, 4, 2, 2, 3, 3}) {
    ++state.step;
    checkpoints.AddLoss(loss);
    if (checkpoints.Due(state.step)) checkpoints.Save(state);
  }
  checkpoints.Finish();
  EXPECT_THAT(StepsWritten(".step-"), ElementsAre(2, 6, 8));
  EXPECT_THAT(StepsWritten(".best"), ElementsAre(2, 4, 8)) << "8 is better than what was written";
  std::vector<std::pair<std::string, int64_t>> failures;
  for (const CheckpointReport& report : reports) {
    if (!report.status.ok()) failures.emplace_back(report.path, report.step);
  }
  EXPECT_THAT(failures, ElementsAre(std::pair("n.step-000004", 4), std::pair("n.best", 6)));
  EXPECT_EQ(checkpoints.failed(), 2);
}

TEST_F(PeriodicCheckpointsTest, WhatAWriteThrowsIsReported) {
  auto options = Every(1);
  options.write = [&, good = options.write](const std::string& path, const Graph& graph,
                                            const TrainingState& state,
                                            const std::optional<CheckpointMetric>& metric) {
    if (state.step == 2) throw std::bad_alloc();
    return good(path, graph, state, metric);
  };
  PeriodicCheckpoints checkpoints(graph_, std::move(options));
  Train(&checkpoints);
  EXPECT_THAT(StepsWritten(".step-"), ElementsAre(1, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(checkpoints.failed(), 1);
  const auto report = std::ranges::find_if(reports, [](const auto& r) { return !r.status.ok(); });
  ASSERT_NE(report, reports.end());
  EXPECT_EQ(report->step, 2);
  EXPECT_EQ(report->status.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(PeriodicCheckpointsTest, TheNewestStayAndEachIsTheRunOfSoManySteps) {
  const TempFolder folder;
  auto options = Every(2);
  options.write = SaveCheckpoint;
  options.schedule.name = folder / "kept";
  options.schedule.keep = 2;
  PeriodicCheckpoints checkpoints(graph_, std::move(options));
  const TrainingState end = Train(&checkpoints);
  std::vector<int64_t> steps;
  for (const auto& file : ModelWriter::Get(StepCheckpoints(folder / "kept"))) {
    steps.push_back(file.step);
    TrainerOptions rest = kTenSteps;
    rest.steps = file.step;
    EXPECT_EQ(ModelWriter::Get(LoadCheckpoint(file.path, graph_)), Train(nullptr, rest));
  }
  EXPECT_THAT(steps, ElementsAre(8, 10));
  EXPECT_EQ(ModelWriter::Get(FindResumePoint(folder / "kept", graph_)).state, end);
}

TEST_F(PeriodicCheckpointsTest, TheStepThatARunBeginsWithIsNotWrittenAgain) {
  auto options = Every(2);
  options.start = 4;
  PeriodicCheckpoints checkpoints(graph_, std::move(options));
  EXPECT_FALSE(checkpoints.Due(4));
  EXPECT_FALSE(checkpoints.Due(5));
  EXPECT_TRUE(checkpoints.Due(6));
}

}  // namespace
}  // namespace partita

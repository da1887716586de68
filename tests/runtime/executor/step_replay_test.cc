// Which steps are recorded once and run again, and when. The work is counted, not done; whole plans
// are run so, bit for bit as any other way, by ring_equality_test.
#include "runtime/executor/step_replay.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "runtime/comm/communicators.h"
#include "runtime/executor/device_recordings.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/training_state.h"
#include "tests/testing/by_sample.h"
#include "tests/testing/far_memory_backend.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

// What a test sees of its recordings.
struct Log {
  int begun = 0, ended = 0;
  std::vector<int64_t> runs;  // their steps
  std::thread::id caller;     // of the last run
  absl::Status begin, end, run;
};

class FakeRecording : public StreamRecording {
 public:
  explicit FakeRecording(Log* log) : log_(*log) {}
  absl::Status Begin() override {
    ++log_.begun;
    return log_.begin;
  }
  absl::Status End() override {
    ++log_.ended;
    return log_.end;
  }
  absl::Status Run(const StepArguments& arguments) override {
    log_.runs.push_back(arguments.step);
    log_.caller = std::this_thread::get_id();
    return log_.run;
  }

 private:
  Log& log_;
};

// Steps of batches at addresses that are told by numbers, one for each device.
struct Steps {
  absl::Status Run(const std::vector<int>& addresses) {
    StepArguments arguments;
    arguments.step = step++;
    std::vector<BatchAddress> batch;
    for (int address : addresses) {
      batch.push_back(
          {reinterpret_cast<const void*>(uintptr_t{64} * static_cast<size_t>(address)), nullptr});
    }
    return replay.Enqueue(batch, arguments, [this] { ++enqueued; });
  }

  Log log;
  int64_t step = 0;
  int enqueued = 0;
  StepReplay replay{[this] { return std::make_unique<FakeRecording>(&log); }};
};

TEST(StepReplayTest, TheSecondStepOfAnAddressIsRecordedAndLaterOnesRunIt) {
  Steps steps;
  for (int k = 0; k < 6; ++k) EXPECT_TRUE(steps.Run({1, k % 2}).ok());
  EXPECT_EQ(steps.log.begun, 2);
  EXPECT_EQ(steps.log.ended, 2);
  EXPECT_EQ(steps.enqueued, 4);  // two first steps, two that were recorded
  EXPECT_EQ(steps.log.runs, (std::vector<int64_t>{2, 3, 4, 5}));
  EXPECT_EQ(steps.replay.runs(), 4);
}

TEST(StepReplayTest, WhatCannotBeRecordedIsEnqueuedForGoodAndSaysWhy) {
  for (absl::Status Log::* where : {&Log::begin, &Log::end}) {
    Steps steps;
    steps.log.*where = absl::UnimplementedError("a host call");
    for (int k = 0; k < 4; ++k) EXPECT_TRUE(steps.Run({0}).ok());
    EXPECT_EQ(steps.log.begun, 1);
    EXPECT_EQ(steps.replay.runs(), 0);
    // The attempt, where it came so far, enqueued nothing that runs.
    EXPECT_EQ(steps.enqueued, where == &Log::end ? 5 : 4);
    EXPECT_EQ(steps.replay.status(), absl::UnimplementedError("a host call"));
  }
}

TEST(StepReplayTest, WhatAPeerCannotRecordIsEnqueued) {
  for (const int refused : {0, 1}) {  // before and after what is recorded
    Log log;
    int asked = 0, enqueued = 0;
    StepReplay replay([&] { return std::make_unique<FakeRecording>(&log); },
                      [&](const absl::Status& own) {
                        EXPECT_TRUE(own.ok());
                        return asked++ == refused ? absl::UnimplementedError("rank 3: a host call")
                                                  : own;
                      });
    const BatchAddress batch;
    for (int k = 0; k < 3; ++k) {
      EXPECT_TRUE(replay.Enqueue({&batch, 1}, {}, [&] { ++enqueued; }).ok());
    }
    EXPECT_EQ(log.begun, 1);
    EXPECT_EQ(log.ended, 1);  // also where nothing was recorded
    EXPECT_EQ(asked, refused + 1);
    EXPECT_EQ(enqueued, 3 + refused);
    EXPECT_EQ(replay.runs(), 0);
    EXPECT_EQ(replay.status().message(), "rank 3: a host call");
  }
}

TEST(DeviceRecordingsTest, AllBeginOrNoneAndEachIsRunByItsThread) {
  const auto recordings = [](std::vector<Log>& logs) {
    std::vector<std::unique_ptr<StreamRecording>> all;
    for (Log& log : logs) all.push_back(std::make_unique<FakeRecording>(&log));
    return all;
  };
  const auto threads = ModelWriter::Get(DeviceThreads::Start(3));
  std::vector<Log> logs(3);
  DeviceRecordings good(recordings(logs), threads.get());
  EXPECT_TRUE(good.Begin().ok());
  EXPECT_TRUE(good.End().ok());
  StepArguments arguments;
  arguments.step = 7;
  EXPECT_TRUE(good.Run(arguments).ok());
  std::set<std::thread::id> callers = {std::this_thread::get_id()};
  for (const Log& log : logs) {
    EXPECT_EQ(log.runs, std::vector<int64_t>{7});
    EXPECT_TRUE(callers.insert(log.caller).second) << "a thread runs two devices";
  }
  logs[1].run = absl::InternalError("a launch");
  EXPECT_EQ(good.Run(arguments), logs[1].run);
  logs = std::vector<Log>(3);
  logs[2].begin = absl::InternalError("a capture");
  DeviceRecordings bad(recordings(logs), threads.get());
  EXPECT_EQ(bad.Begin(), logs[2].begin);
  EXPECT_EQ(logs[0].ended + logs[1].ended, 2);
  EXPECT_EQ(logs[2].ended, 0);
}

TEST(StepReplayTest, BatchesAtEverNewAddressesAreNotRecordedAndItSaysSo) {
  Steps steps;
  for (int k = 0; k < 100; ++k) EXPECT_TRUE(steps.Run({k}).ok());
  for (int k = 50; k < 60; ++k) EXPECT_TRUE(steps.Run({k}).ok());
  EXPECT_EQ(steps.enqueued, 110);
  EXPECT_EQ(steps.log.begun, 0);
  EXPECT_EQ(steps.replay.status().message(), "batches come from more than 8 addresses");
}

TEST(StepReplayTest, AnErrorOfARecordedStepIsItsStepsError) {
  Steps steps;
  EXPECT_TRUE(steps.Run({0}).ok());
  steps.log.run = absl::InternalError("a launch");
  EXPECT_EQ(steps.Run({0}), steps.log.run);
}

// A small model with its parts split by sample.
class ReplayedPlanTest : public testing::Test {
 protected:
  // Or why steps of such devices are enqueued piece by piece.
  std::string Answer(const std::vector<PlacedDevice>& devices, const char* communicator) {
    const auto executor = Open({.devices = devices, .communicator = communicator});
    const absl::Status answer = executor->CanReplay();
    return answer.ok() ? "replays" : std::string(answer.message());
  }
  std::unique_ptr<Executor> Open(const ExecutorSetup& setup) {
    const int count = static_cast<int>(setup.devices.size());
    const Strategy strategy = BySample(graph_, count);
    return ModelWriter::Get(OpenExecutor(
        graph_, ModelWriter::Get(CanonicalStep(graph_, strategy, {.devices = count})), setup));
  }
  // Steps on one batch in this memory; the losses.
  std::vector<double> Train(Executor& executor, std::pmr::memory_resource* memory) {
    std::pmr::vector<float> x(
        static_cast<size_t>(Volume(graph_.WholeType(TensorRole::kSamples).shape)), 0.5f, memory);
    std::pmr::vector<int32_t> y(static_cast<size_t>(graph_.batch()), 1, memory);
    EXPECT_TRUE(WriteValues(graph_, ModelWriter::Get(InitialState(graph_, 1)), executor).ok());
    std::vector<double> losses;
    replayed_.clear();
    for (int step = 0; step < 4; ++step) {
      const StepResult result = ModelWriter::Get(
          executor.Step(HostTensorOf(x), HostTensorOf(y), {.step = step, .seed = 3}));
      losses.push_back(result.outputs[0]);
      replayed_.push_back(result.replayed);
    }
    return losses;
  }

  const Graph graph_ = ModelWriter::Get(BuildTrainingGraph(ModelWriter::Get(MakeMlpTiny(4)), {}));
  const std::shared_ptr<const Backend> near_ = ModelWriter::Get(MakeBackend("reference"));
  const std::shared_ptr<const Backend> far_ = FarMemoryBackend(near_);
  std::vector<bool> replayed_;  // by step of the last Train
};

TEST_F(ReplayedPlanTest, DevicesOfOneMemoryReplayUnlessTheyCommunicateThroughTheHost) {
  const PlacedDevice near{near_, {}}, gpu0{far_, {.index = 0}}, gpu1{far_, {.index = 1}};
  EXPECT_EQ(Answer({gpu0}, "inproc"), "replays");
  EXPECT_EQ(Answer({gpu0, gpu0}, "streams"), "replays");
  EXPECT_EQ(Answer({gpu0, gpu1}, "streams"), "the devices do not reach each other's memory");
  EXPECT_EQ(Answer({near, near}, "inproc"), "the reference backend records nothing");
  EXPECT_EQ(Answer({gpu0, near}, "streams"), "the devices do not reach each other's memory");
}

TEST_F(ReplayedPlanTest, StepsThatAreCheckedOrTimedOrNotAskedForAreEnqueued) {
  const std::vector<PlacedDevice> devices(2, {far_, {}});
  const auto replaying = Open({.devices = devices, .communicator = "streams"});
  const std::vector<double> losses = Train(*replaying, replaying->batch_memory());
  EXPECT_EQ(replayed_, (std::vector<bool>{false, true, true, true}));
  const auto plain = Open({.devices = devices, .communicator = "streams", .replay = false});
  EXPECT_EQ(Train(*plain, plain->batch_memory()), losses);
  EXPECT_EQ(replayed_, std::vector<bool>(4, false));
  EXPECT_FALSE(plain->CanReplay().ok());

  replaying->CheckFinite(true);
  EXPECT_EQ(Train(*replaying, replaying->batch_memory()), losses);
  EXPECT_EQ(replayed_, std::vector<bool>(4, false));
  replaying->CheckFinite(false);
  replaying->RecordTimeline(true);
  EXPECT_EQ(Train(*replaying, replaying->batch_memory()), losses);
  EXPECT_EQ(replayed_, std::vector<bool>(4, false));
  EXPECT_TRUE(replaying->CanReplay().ok());
}

TEST_F(ReplayedPlanTest, BatchesInMemoryThatMayMoveAreNotRecorded) {
  const auto executor = Open({.devices = {{far_, {}}}, .communicator = "streams"});
  Train(*executor, std::pmr::new_delete_resource());
  EXPECT_EQ(replayed_, std::vector<bool>(4, false));
  EXPECT_EQ(executor->CanReplay().message(),
            "a copy from host memory that is not pinned cannot be part of a recorded step");
}

}  // namespace
}  // namespace partita

// Steps that devices record together which the nccl communicator connects, of one process and of
// several, with stand-ins of GPUs and the test library of NCCL's functions.
#include "runtime/executor/replayed_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/training_state.h"
#include "tests/testing/by_sample.h"
#include "tests/testing/far_memory_backend.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/thread_port.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 6;

// A small model with its parts split by sample, on devices that each record by themselves.
class ReplayedStepsTest : public testing::Test {
 protected:
  ExecutorSetup SetupOf(int devices) const {
    ExecutorSetup setup{.communicator = "nccl", .nccl_library = PARTITA_NCCL_ON_HOST};
    for (int d = 0; d < devices; ++d) setup.devices.push_back({gpus_, {.index = d}});
    return setup;
  }
  std::unique_ptr<Executor> Open(const ExecutorSetup& setup) const {
    const int count = static_cast<int>(setup.devices.size());
    const Strategy strategy = BySample(graph_, count);
    return ModelWriter::Get(OpenExecutor(
        graph_, ModelWriter::Get(CanonicalStep(graph_, strategy, {.devices = count})), setup));
  }

  // What steps gave: losses, and whether they were replayed.
  struct Trained {
    std::vector<double> losses;
    std::vector<bool> replayed;
    std::string answer;  // why none is
  };
  // Steps on batches that come from so many addresses in turn. `before` each step.
  Trained Train(Executor& executor, int addresses,
                const std::function<void(int)>& before = nullptr) const {
    std::vector<std::pmr::vector<float>> x;
    std::vector<std::pmr::vector<int32_t>> y;
    for (int k = 0; k < addresses; ++k) {
      const auto elements =
          static_cast<size_t>(Volume(graph_.WholeType(TensorRole::kSamples).shape));
      x.emplace_back(elements, 0.5f, executor.batch_memory());
      y.emplace_back(static_cast<size_t>(graph_.batch()), 1, executor.batch_memory());
    }
    EXPECT_TRUE(WriteValues(graph_, ModelWriter::Get(InitialState(graph_, 1)), executor).ok());
    Trained trained;
    for (int step = 0; step < kSteps; ++step) {
      if (before) before(step);
      const auto k = static_cast<size_t>(step % addresses);
      const StepResult result = ModelWriter::Get(
          executor.Step(HostTensorOf(x[k]), HostTensorOf(y[k]), {.step = step, .seed = 3}));
      trained.losses.push_back(result.outputs[0]);
      trained.replayed.push_back(result.replayed);
    }
    trained.answer = std::string(executor.CanReplay().message());
    return trained;
  }

  // One process for each device, which are threads here: `run` is called with its rank's setup.
  std::vector<Trained> OnRanks(
      int ranks, const std::function<Trained(int rank, ExecutorSetup setup)>& run) const {
    Mail mail;
    std::vector<Trained> trained(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        ThreadPort port(mail, rank, ranks);
        ExecutorSetup setup = SetupOf(ranks);
        setup.port = &port;
        trained[static_cast<size_t>(rank)] = run(rank, setup);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return trained;
  }

  const Graph graph_ = ModelWriter::Get(BuildTrainingGraph(ModelWriter::Get(MakeMlpTiny(4)), {}));
  const std::shared_ptr<const Backend> gpus_ =
      RecordingBackend(ModelWriter::Get(MakeBackend("reference")));
};

TEST_F(ReplayedStepsTest, DevicesOfOneProcessReplayWhatEachHasRecorded) {
  ExecutorSetup setup = SetupOf(4);
  const Trained replayed = Train(*Open(setup), 1);
  EXPECT_EQ(replayed.replayed, std::vector<bool>({false, true, true, true, true, true}));
  EXPECT_EQ(replayed.answer, "");
  setup.replay = false;
  const auto plain = Open(setup);
  EXPECT_EQ(Train(*plain, 1).losses, replayed.losses);
  const auto counting = Open(SetupOf(4));
  EXPECT_EQ(Train(*counting, 1).losses, replayed.losses);
  EXPECT_EQ(counting->BytesReceived(), plain->BytesReceived());
}

// A device in the middle of the model. Batches that are staged go through two places of the first
// device's memory, from wherever they come.
TEST_F(ReplayedStepsTest, WhereBatchesComeFromIsOfNoInterestToDevicesThatLoadNone) {
  Strategy strategy = BySample(graph_, 1);
  strategy.configs[graph_.anchors()[1].index()].devices = {DeviceId(1)};
  const auto losses_of = [&](bool replay, std::vector<bool>& replayed) {
    ExecutorSetup setup = SetupOf(2);
    setup.replay = replay;
    const auto executor = ModelWriter::Get(OpenExecutor(
        graph_, ModelWriter::Get(CanonicalStep(graph_, strategy, {.devices = 2})), setup));
    EXPECT_TRUE(WriteValues(graph_, ModelWriter::Get(InitialState(graph_, 1)), *executor).ok());
    std::vector<std::pmr::vector<float>> x;
    std::vector<std::pmr::vector<int32_t>> y;
    for (int k = 0; k < 3; ++k) {
      const auto elements =
          static_cast<size_t>(Volume(graph_.WholeType(TensorRole::kSamples).shape));
      x.emplace_back(elements, 0.25f * static_cast<float>(k + 1), executor->batch_memory());
      y.emplace_back(static_cast<size_t>(graph_.batch()), k, executor->batch_memory());
    }
    std::vector<double> losses;
    for (int step = 0; step < kSteps; ++step) {
      const auto own = static_cast<size_t>(step % 3), next = (own + 1) % 3;
      executor->Stage(HostTensorOf(x[next]), HostTensorOf(y[next]));
      const StepResult result = ModelWriter::Get(
          executor->Step(HostTensorOf(x[own]), HostTensorOf(y[own]), {.step = step, .seed = 3}));
      losses.push_back(result.outputs[0]);
      replayed.push_back(result.replayed);
    }
    return losses;
  };
  std::vector<bool> replayed, plain;
  const std::vector<double> losses = losses_of(true, replayed);
  EXPECT_EQ(replayed, std::vector<bool>({false, false, false, true, true, true}));
  EXPECT_EQ(losses_of(false, plain), losses);
}

TEST_F(ReplayedStepsTest, ALibraryThatDoesNotSplitIsNotRecorded) {
  ExecutorSetup setup = SetupOf(2);
  setup.nccl_library = PARTITA_NCCL_2_17_ON_HOST;
  const Trained trained = Train(*Open(setup), 1);
  EXPECT_EQ(trained.replayed, std::vector<bool>(kSteps, false));
  EXPECT_THAT(trained.answer, HasSubstr("a library that cannot be recorded"));
}

// Two addresses on one rank, one on the other: the two pairs of them are met twice each at first.
TEST_F(ReplayedStepsTest, RanksReplayWhatTheyRecordedTogether) {
  const std::vector<double> want = Train(*Open(SetupOf(2)), 1).losses;
  const auto trained = OnRanks(2, [&](int rank, const ExecutorSetup& setup) {
    const auto executor = Open(setup);
    return Train(*executor, rank == 0 ? 1 : 2);
  });
  for (const Trained& rank : trained) {
    EXPECT_EQ(rank.losses, want);
    EXPECT_EQ(rank.replayed, std::vector<bool>({false, false, true, true, true, true}));
  }
}

// A timeline that one rank asks for; its last step is replayed again.
TEST_F(ReplayedStepsTest, AStepThatOneRankWantsPieceByPieceIsSoOnAll) {
  const auto trained = OnRanks(3, [&](int rank, const ExecutorSetup& setup) {
    const auto executor = Open(setup);
    return Train(*executor, 1, [&, rank](int step) {
      if (rank == 1) executor->RecordTimeline(step == 4);
    });
  });
  for (const Trained& rank : trained) {
    EXPECT_EQ(rank.losses, trained[0].losses);
    EXPECT_EQ(rank.replayed, std::vector<bool>({false, true, true, true, false, true}));
  }
}

TEST_F(ReplayedStepsTest, WhatOneRankDoesNotRecordNoneDoes) {
  const auto trained = OnRanks(2, [&](int rank, ExecutorSetup setup) {
    setup.replay = rank == 0;
    return Train(*Open(setup), 1);
  });
  for (const Trained& rank : trained) {
    EXPECT_EQ(rank.replayed, std::vector<bool>(kSteps, false));
    EXPECT_EQ(rank.answer, "rank 1: it was not asked for");
  }
}

// A batch in memory that is not pinned, on one rank, shows while the step is recorded.
TEST_F(ReplayedStepsTest, ARecordingThatFailsOnOneRankIsGivenUpOnAll) {
  const auto trained = OnRanks(2, [&](int rank, const ExecutorSetup& setup) {
    const auto executor = Open(setup);
    if (rank == 0) return Train(*executor, 1);
    std::vector<float> x(static_cast<size_t>(Volume(graph_.WholeType(TensorRole::kSamples).shape)),
                         0.5f);
    std::vector<int32_t> y(static_cast<size_t>(graph_.batch()), 1);
    EXPECT_TRUE(WriteValues(graph_, ModelWriter::Get(InitialState(graph_, 1)), *executor).ok());
    Trained own;
    for (int step = 0; step < kSteps; ++step) {
      const StepResult result = ModelWriter::Get(
          executor->Step(HostTensorOf(x), HostTensorOf(y), {.step = step, .seed = 3}));
      own.losses.push_back(result.outputs[0]);
      own.replayed.push_back(result.replayed);
    }
    own.answer = std::string(executor->CanReplay().message());
    return own;
  });
  EXPECT_EQ(trained[0].losses, trained[1].losses);
  for (const Trained& rank : trained) {
    EXPECT_EQ(rank.replayed, std::vector<bool>(kSteps, false));
    EXPECT_EQ(rank.answer,
              "rank 1: a copy from host memory that is not pinned cannot be part of a recorded "
              "step");
  }
}

}  // namespace
}  // namespace partita

#include "graph/partition/pending_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace partita {
namespace {

using Phase = TaskKey::Phase;

constexpr int kDevices = 3, kBuffersOfDevice = 5;
const Box kWhole{{0, 8}, {0, 6}};

// A graph of random moves between a few buffers of each device, in all phases and several
// microbatches, with outlines or without.
TaskGraph RandomMoves(uint32_t seed, bool outlines) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  TaskGraphBuilder builder(kDevices);
  std::vector<std::vector<BufferId>> buffers(kDevices);
  for (int d = 0; d < kDevices; ++d) {
    for (int b = 0; b < kBuffersOfDevice; ++b) {
      buffers[static_cast<size_t>(d)].push_back(builder.AddBuffer(
          {.device = DeviceId(d), .kind = BufferKind::kActivation, .box = kWhole}));
    }
  }
  const std::vector<Box> rows = {Box{{1, 3}, {0, 6}}, Box{{5, 6}, {0, 6}}};
  const std::vector<Box> cut = {Box{{2, 4}, {1, 4}}};
  PendingMoves moves(DType::kFloat32, outlines);
  for (int step = 0; step < 3; ++step) {
    for (int k = 0; k < 60; ++k) {
      const size_t device = below(kDevices);
      const Phase phase = std::vector{Phase::kSum, Phase::kPack, Phase::kUnpack}[below(3)];
      const auto microbatch = static_cast<int32_t>(phase == Phase::kSum ? below(3) : 0);
      const std::vector<Box>& boxes = below(2) == 0 ? rows : cut;
      const BufferId a = buffers[device][below(kBuffersOfDevice)],
                     b = buffers[device][below(kBuffersOfDevice)];
      const FlowPlace from = FlowPlace::Within(a, kWhole);
      const FlowPlace to = below(2) == 0 ? FlowPlace::Within(b, kWhole) : FlowPlace::Packed(b, 3);
      const auto kind = below(3) == 0 ? MoveSignature::Kind::kAdd : MoveSignature::Kind::kCopy;
      moves.Add({phase, DeviceId(static_cast<int32_t>(device)), microbatch}, kind, {from, to},
                boxes);
    }
    for (Phase phase : {Phase::kSum, Phase::kPack, Phase::kUnpack}) {
      moves.Flush({true, 0, step, phase, 0, 0}, builder);
    }
  }
  return std::move(builder).Build();
}

TEST(PendingMovesTest, OutlinesHaveTheCostsAndUsesOfTheMoves) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const TaskGraph whole = RandomMoves(seed, false), outlined = RandomMoves(seed, true);
    ASSERT_EQ(whole.tasks().size(), outlined.tasks().size());
    EXPECT_GT(whole.tasks().size(), 9u);
    for (size_t t = 0; t < whole.tasks().size(); ++t) {
      const Task &a = whole.tasks()[t], &b = outlined.tasks()[t];
      EXPECT_EQ(a.key, b.key);
      EXPECT_EQ(a.dependencies, b.dependencies);
      EXPECT_EQ(SignaturesOf(std::get<MoveTask>(a.body)), SignaturesOf(std::get<MoveTask>(b.body)));
      const BufferUseList x = UsesOf(a), y = UsesOf(b);
      ASSERT_EQ(x.size(), y.size());
      for (size_t k = 0; k < x.size(); ++k) {
        EXPECT_EQ(x[k].buffer, y[k].buffer);
        EXPECT_EQ(x[k].writes, y[k].writes);
      }
    }
  }
}

TEST(PendingMovesTest, TasksComeByDeviceAndMicrobatchEachOnce) {
  for (bool outlines : {false, true}) {
    const TaskGraph graph = RandomMoves(1, outlines);
    for (size_t t = 1; t < graph.tasks().size(); ++t) {
      const TaskKey &before = graph.tasks()[t - 1].key, &key = graph.tasks()[t].key;
      if (before.step != key.step || before.phase != key.phase) continue;
      const auto microbatch = [](const TaskKey& k) { return k.to < 0 ? -k.to : 0; };
      EXPECT_LT(std::pair(before.from, microbatch(before)), std::pair(key.from, microbatch(key)));
    }
  }
}

TEST(SignatureTest, RunsEndWhereEitherSideIsCut) {
  const auto run_of = [](const Box& region, const Box& from, const Box& to) {
    return SignatureOf(MoveSignature::Kind::kCopy, DType::kFloat32, region, from, to).run;
  };
  const Box rows{{2, 4}, {0, 6}}, block{{2, 4}, {1, 4}};
  EXPECT_EQ(run_of(kWhole, kWhole, kWhole), 48);
  EXPECT_EQ(run_of(rows, kWhole, rows), 12);
  EXPECT_EQ(run_of(block, block, block), 6);
  EXPECT_EQ(run_of(block, kWhole, block), 3);
  EXPECT_EQ(run_of(block, block, kWhole), 3);
  EXPECT_EQ(run_of(Box(0), Box(0), Box(0)), 1);
  const MoveSignature fill =
      SignatureOf(MoveSignature::Kind::kFill, DType::kFloat32, block, Box(), block);
  EXPECT_EQ(fill.run, 6);
  EXPECT_EQ(fill.elements, 6);
}

}  // namespace
}  // namespace partita

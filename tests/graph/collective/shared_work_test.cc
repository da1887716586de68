#include "graph/collective/shared_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "graph/collective/algorithms.h"
#include "graph/collective/run_schedule.h"
#include "tests/graph/collective/random_collectives.h"

namespace partita {
namespace {

template <class T>
using Buffers = std::vector<std::vector<T>>;

template <class T>
T Evaluate(const SharedValue& value, Reduction reduction, const Buffers<T>& buffers, int64_t i) {
  if (value.folded.empty()) return buffers[value.rank][i];
  T sum = Evaluate(value.folded[0], reduction, buffers, i);
  for (size_t k = 1; k < value.folded.size(); ++k) {
    sum = CombineElements(reduction, sum, Evaluate(value.folded[k], reduction, buffers, i));
  }
  return sum;
}

template <class T>
void RunPiece(const SharedPiece& piece, Reduction reduction, Buffers<T>& buffers) {
  for (int64_t i = piece.range.offset; i < piece.range.end(); ++i) {
    std::vector<T> values;
    for (const auto& result : piece.results) {
      values.push_back(Evaluate(result.value, reduction, buffers, i));
    }
    for (size_t k = 0; k < values.size(); ++k) {
      for (int rank : piece.results[k].ranks) buffers[rank][i] = values[k];
    }
  }
}

// Workers do their pieces at any time.
template <class T>
void RunPieces(std::vector<SharedPiece> pieces, Reduction reduction, std::mt19937& random,
               Buffers<T>& buffers) {
  std::shuffle(pieces.begin(), pieces.end(), random);
  for (const SharedPiece& piece : pieces) RunPiece(piece, reduction, buffers);
}

template <class T>
Buffers<T> RandomBuffers(const Collective& c, std::mt19937& random) {
  Buffers<T> buffers(c.ranks);
  for (auto& buffer : buffers) {
    for (int64_t i = 0; i < c.total; ++i) {
      buffer.push_back(static_cast<T>(random()) * static_cast<T>(1 + random() % 1000));
    }
  }
  return buffers;
}

std::vector<int> AllRanks(int ranks) {
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

template <class T>
void ExpectSame(const Collective& c, const Buffers<T>& want, const Buffers<T>& got) {
  for (int rank = 0; rank < c.ranks; ++rank) {
    const ElementRange range =
        c.kind == CollectiveKind::kReduceScatter ? c.blocks[rank] : ElementRange{0, c.total};
    if (range.count == 0) continue;
    ASSERT_EQ(
        std::memcmp(&want[rank][range.offset], &got[rank][range.offset], range.count * sizeof(T)),
        0)
        << ToString(c) << ", rank " << rank;
  }
}

// At once, and with the schedule cut in two anywhere.
template <class T>
void ExpectTheScheduleResult(const Case& c, std::mt19937& random) {
  const auto schedule = *BuildSchedule(c.algorithm->name, c.collective, c.options);
  const Collective& collective = c.collective;
  const Buffers<T> inputs = RandomBuffers<T>(collective, random);
  Buffers<T> want = inputs, got = inputs, in_two = inputs;
  RunInPlace(schedule, collective.reduction, want);
  const std::vector<int> all = AllRanks(collective.ranks);
  const size_t rounds = schedule.rounds.size(), cut = random() % (rounds + 1);
  RunPieces(SharedWork(collective, schedule, 0, rounds, all), collective.reduction, random, got);
  ExpectSame(collective, want, got);
  for (const auto& [first, last] : {std::pair{size_t{0}, cut}, std::pair{cut, rounds}}) {
    RunPieces(SharedWork(collective, schedule, first, last, all), collective.reduction, random,
              in_two);
  }
  ExpectSame(collective, want, in_two);
}

TEST(SharedWorkTest, EveryScheduleInPlaceGivesTheSameBits) {
  std::mt19937 random(21);
  int checked = 0;
  for (Case& c : AllCases(3, 5)) {
    if (c.collective.kind == CollectiveKind::kAllToAll) continue;
    c.collective.reduction = random() % 3 == 0 ? Reduction::kMax : Reduction::kSum;
    ExpectTheScheduleResult<float>(c, random);
    ExpectTheScheduleResult<uint64_t>(c, random);
    if (HasFatalFailure()) return;
    ++checked;
  }
  EXPECT_GE(checked, 400);
}

TEST(SharedWorkTest, PiecesAreApartAndEveryRankDoesItsShare) {
  for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
    if (!row.kinds.contains(CollectiveKind::kAllReduce)) continue;
    for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
      const Collective c = MakeAllReduce(ranks, 10'000'019);
      const auto schedule = *BuildSchedule(row.name, c);
      std::vector<int64_t> work(ranks, 0);
      int64_t next = 0;
      for (const SharedPiece& piece :
           SharedWork(c, schedule, 0, schedule.rounds.size(), AllRanks(ranks))) {
        EXPECT_EQ(piece.range.offset, next);
        next = piece.range.end();
        work[piece.worker] += piece.range.count;
        ASSERT_EQ(piece.results.size(), 1u);
        EXPECT_EQ(piece.results[0].ranks, AllRanks(ranks));
      }
      EXPECT_EQ(next, c.total);
      for (int64_t elements : work) EXPECT_NEAR(elements, c.total / ranks, c.total / 100);
    }
  }
}

// Nobody makes what only others want.
TEST(SharedWorkTest, AReduceScatterIsMadeByWhoKeepsIt) {
  const Collective c = MakeReduceScatter({1000, 0, 5000, 70});
  for (const char* algorithm : {"ring", "halving_doubling", "direct"}) {
    const auto schedule = *BuildSchedule(algorithm, c);
    int64_t elements = 0;
    for (const SharedPiece& piece :
         SharedWork(c, schedule, 0, schedule.rounds.size(), AllRanks(4))) {
      ASSERT_EQ(piece.results.size(), 1u);
      EXPECT_EQ(piece.results[0].ranks, std::vector<int>{piece.worker});
      EXPECT_GE(piece.range.offset, c.blocks[piece.worker].offset);
      EXPECT_LE(piece.range.end(), c.blocks[piece.worker].end());
      elements += piece.range.count;
    }
    EXPECT_EQ(elements, c.total);
  }
}

}  // namespace
}  // namespace partita

#include "runtime/launch/failure_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

// A run of which every rank speaks every 250 ms, but for those that a test makes silent.
class FailureDetectorTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;

  // Goes on for so long, or until there is a verdict.
  std::optional<Verdict> Run(int64_t milliseconds) {
    for (int64_t end = now_ + milliseconds * kMs; now_ < end; now_ += 50 * kMs) {
      if (starves_) starved_ += 50 * kMs;
      if (now_ % (250 * kMs) == 0) {
        for (int rank = 0; rank < kRanks; ++rank) {
          if (rank != silent_) detector_.Observe(rank, At(rank), now_);
        }
      }
      if (auto verdict = detector_.Detect(now_)) return verdict;
    }
    return std::nullopt;
  }

  RankProgress At(int rank) const {
    if (rank == stuck_) return {RankState::kWorking, 7, starved_};
    if (stuck_ >= 0) return {RankState::kWaiting, 100};
    return {RankState::kWorking, 10 + now_ / (every_ms_ * kMs)};
  }

  int64_t now_ = 0, every_ms_ = 250;
  int silent_ = -1, stuck_ = -1;
  bool starves_ = false;
  int64_t starved_ = 0;
  FailureDetector detector_{kRanks, {}, 0};
};

TEST_F(FailureDetectorTest, ARunThatGoesOnIsNotJudged) {
  EXPECT_FALSE(Run(60'000).has_value());
  EXPECT_FALSE(detector_.AllLeft());
  for (int rank = 0; rank < kRanks; ++rank) detector_.Left(rank);
  EXPECT_TRUE(detector_.AllLeft());
  EXPECT_FALSE(Run(60'000).has_value());
}

TEST_F(FailureDetectorTest, ASilentRankIsNamedWithinFiveSeconds) {
  ASSERT_FALSE(Run(10'000).has_value());
  detector_.Name(2, "rank 2 (process 17 on b)");
  silent_ = 2;
  const auto verdict = Run(5'000);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 2);
  EXPECT_EQ(verdict->code, 5);
  EXPECT_THAT(verdict->reason, HasSubstr("rank 2 (process 17 on b) has given no sign of life"));
}

TEST_F(FailureDetectorTest, ARankThatEndsWithoutAWordIsNamedAtOnce) {
  ASSERT_FALSE(Run(1'000).has_value());
  detector_.Closed(3);
  const auto verdict = Run(100);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 3);
  EXPECT_THAT(verdict->reason, HasSubstr("rank 3 has ended without a word"));
}

TEST_F(FailureDetectorTest, ARankThatHasLeftMayClose) {
  detector_.Left(3);
  detector_.Closed(3);
  EXPECT_FALSE(Run(10'000).has_value());
}

TEST_F(FailureDetectorTest, ARankThatWorksAndCompletesNothingHangs) {
  ASSERT_FALSE(Run(10'000).has_value());
  stuck_ = 1;  // the others wait for it
  ASSERT_FALSE(Run(500).has_value());
  const auto verdict = Run(5'000);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_THAT(verdict->reason, HasSubstr("rank 1 hangs"));
}

TEST_F(FailureDetectorTest, ARankThatGetsNoCoreDoesNotHang) {
  ASSERT_FALSE(Run(10'000).has_value());
  stuck_ = 1;
  starves_ = true;
  ASSERT_FALSE(Run(60'000).has_value());
  starves_ = false;  // from now on it has one
  const auto verdict = Run(6'000);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_THAT(verdict->reason, HasSubstr("rank 1 hangs"));
}

TEST_F(FailureDetectorTest, LongPiecesOfWorkAreNoHang) {
  every_ms_ = 2'000;
  ASSERT_FALSE(Run(20'000).has_value());
  every_ms_ = 1'000'000;  // now one piece that takes ten times as long
  EXPECT_FALSE(Run(20'000).has_value());
  EXPECT_TRUE(Run(60'000).has_value());
}

TEST_F(FailureDetectorTest, OneRanksFailureNamesItWithItsReason) {
  detector_.Failed(2, 3, "photos/7.jpg: cannot be read", now_);
  const auto verdict = Run(5'000);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 2);
  EXPECT_EQ(verdict->code, 5);
  EXPECT_FALSE(verdict->common);
  EXPECT_EQ(verdict->reason, "rank 2 has failed: photos/7.jpg: cannot be read");
}

TEST_F(FailureDetectorTest, AFailedCheckOfOneRankKeepsItsCode) {
  detector_.Failed(2, 1, "operator 'fc1' produced NaN", now_);
  const auto verdict = Run(5'000);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 2);
  EXPECT_EQ(verdict->code, 1);
  EXPECT_EQ(verdict->reason, "rank 2 has failed: operator 'fc1' produced NaN");
}

TEST_F(FailureDetectorTest, AFailedCheckIsTheCauseOfOtherFailures) {
  detector_.Failed(0, 5, "rank 3 does not answer", now_);
  ASSERT_FALSE(Run(400).has_value());
  detector_.Failed(3, 1, "operator 'fc1' produced NaN", now_);
  const auto verdict = Run(5'000);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 3);
  EXPECT_EQ(verdict->code, 1);
}

TEST_F(FailureDetectorTest, OfTwoFailuresTheFirstIsTheCause) {
  detector_.Failed(3, 3, "photos/7.jpg: cannot be read", now_);
  detector_.Failed(1, 5, "rank 3 does not answer", now_);
  const auto verdict = Run(5'000);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, 3);
  EXPECT_EQ(verdict->code, 5);
}

TEST_F(FailureDetectorTest, TheSameFailureOfAllRanksKeepsItsCode) {
  for (int rank = 3; rank >= 0; --rank) {
    detector_.Failed(rank, 3, "no such plan", now_);
    const auto verdict = Run(200);
    if (rank > 0) {
      ASSERT_FALSE(verdict.has_value());
      continue;
    }
    ASSERT_TRUE(verdict.has_value());
    EXPECT_TRUE(verdict->common);
    EXPECT_EQ(verdict->code, 3);
    EXPECT_EQ(verdict->reason, "no such plan");
  }
}

TEST_F(FailureDetectorTest, AJudgeThatSleptBlamesNobody) {
  ASSERT_FALSE(Run(1'000).has_value());
  now_ += 30'000 * kMs;  // a laptop that was closed
  EXPECT_FALSE(Run(10'000).has_value());
}

}  // namespace
}  // namespace partita

// Several ranks as threads of one process: each joins, and tells its verdict to the test.
#include "runtime/launch/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "tests/testing/thread_port.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;

struct RankOutcome {
  std::optional<Verdict> verdict;
  int code = -1;  // that Fail returned
};

// Port of a rank that goes on late with what it has received.
class LatePort : public ThreadPort {
 public:
  LatePort(Mail& mail, int rank, int size, double seconds)
      : ThreadPort(mail, rank, size), seconds_(seconds) {}
  absl::Status Begin(std::span<const Message> messages, int tag) override {
    const absl::Status status = ThreadPort::Begin(messages, tag);
    for (const Message& message : messages) {
      if (message.receives) std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    }
    return status;
  }

 private:
  const double seconds_;
};

// Runs `body(rank, watchdog)` on every rank; the last one takes so long over each message.
template <class Body>
std::vector<RankOutcome> RunRanks(Body&& body, double seconds_of_last = 0) {
  Mail mail;
  const RunKey key = RunKey::New();
  std::vector<RankOutcome> outcomes(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      RankOutcome& outcome = outcomes[static_cast<size_t>(rank)];
      LatePort port(mail, rank, kRanks, rank == kRanks - 1 ? seconds_of_last : 0);
      WatchdogOptions options;
      options.detector.silent_seconds = 1;
      options.detector.stuck_seconds = 1;
      options.on_verdict = [&outcome](const Verdict& verdict) { outcome.verdict = verdict; };
      auto watchdog = Watchdog::Join(port, key, options);
      ASSERT_TRUE(watchdog.ok()) << watchdog.status();
      outcome.code = body(rank, **watchdog);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST(WatchdogTest, RanksThatLeaveAreNotJudged) {
  const auto outcomes = RunRanks([](int rank, Watchdog& watchdog) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300 * rank));
    watchdog.Leave();
    return 0;
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_FALSE(outcome.verdict.has_value());
}

TEST(WatchdogTest, RanksThatWaitForALateOneAreNotJudged) {
  const auto leave = [](int, Watchdog& watchdog) {
    watchdog.Leave();
    return 0;
  };
  for (const RankOutcome& outcome : RunRanks(leave, 0.8)) {
    EXPECT_FALSE(outcome.verdict.has_value()) << outcome.verdict->reason;
    EXPECT_EQ(outcome.code, 0);
  }
}

TEST(WatchdogTest, OneRanksFailureReachesAll) {
  const auto outcomes = RunRanks([](int rank, Watchdog& watchdog) {
    if (rank == 2) return watchdog.Fail(3, "its disk is full");
    watchdog.Leave();
    return 0;
  });
  for (const RankOutcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.verdict.has_value());
    EXPECT_EQ(outcome.verdict->rank, 2);
    EXPECT_EQ(outcome.verdict->code, 5);
    EXPECT_THAT(outcome.verdict->reason, HasSubstr("rank 2 (process"));
    EXPECT_THAT(outcome.verdict->reason, HasSubstr("has failed: its disk is full"));
  }
  EXPECT_EQ(outcomes[2].code, 5);
}

TEST(WatchdogTest, TheFailureOfAllKeepsItsCode) {
  const auto outcomes =
      RunRanks([](int, Watchdog& watchdog) { return watchdog.Fail(4, "does not fit"); });
  for (const RankOutcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.verdict.has_value());
    EXPECT_TRUE(outcome.verdict->common);
    EXPECT_EQ(outcome.code, 4);
  }
}

TEST(WatchdogTest, ARankThatHangsIsNamed) {
  std::atomic<int64_t> completed{1};
  const auto outcomes = RunRanks([&](int rank, Watchdog& watchdog) {
    watchdog.Watch([&completed, rank] {
      if (rank == 1) return RankProgress{RankState::kWorking, 1};
      return RankProgress{RankState::kWaiting, ++completed};
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    watchdog.Leave();
    return 0;
  });
  for (const RankOutcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.verdict.has_value());
    EXPECT_EQ(outcome.verdict->rank, 1);
    EXPECT_THAT(outcome.verdict->reason, HasSubstr("hangs"));
  }
}

}  // namespace
}  // namespace partita

// Several ranks as threads of one process: each joins, and tells its verdict to the test.
#include "runtime/launch/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace partita {
namespace {

using ::testing::HasSubstr;

// Mailboxes between threads.
class Mail {
 public:
  void Put(int from, int to, std::string text) {
    std::lock_guard lock(mutex_);
    boxes_[{from, to}].push_back(std::move(text));
    changed_.notify_all();
  }
  std::string Take(int from, int to) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[{from, to}];
    changed_.wait(lock, [&] { return !box.empty(); });
    std::string text = box.front();
    box.pop_front();
    return text;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::string>> boxes_;
};

class ThreadPort : public MessagePort {
 public:
  ThreadPort(Mail& mail, int rank, int size) : mail_(mail), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::Status Begin(std::span<const Message> messages, int) override {
    for (const Message& m : messages) {
      if (m.receives) continue;
      mail_.Put(rank_, m.peer,
                std::string(static_cast<char*>(m.data), static_cast<size_t>(m.bytes)));
    }
    for (const Message& m : messages) {
      if (!m.receives) continue;
      const std::string text = mail_.Take(m.peer, rank_);
      std::memcpy(m.data, text.data(), text.size());
    }
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Advance() override { return true; }

 private:
  Mail& mail_;
  const int rank_, size_;
};

constexpr int kRanks = 3;

struct RankOutcome {
  std::optional<Verdict> verdict;
  int code = -1;  // that Fail returned
};

// Runs `body(rank, watchdog)` on every rank.
template <class Body>
std::vector<RankOutcome> RunRanks(Body&& body) {
  Mail mail;
  std::vector<RankOutcome> outcomes(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      RankOutcome& outcome = outcomes[static_cast<size_t>(rank)];
      ThreadPort port(mail, rank, kRanks);
      WatchdogOptions options;
      options.judge.silent_seconds = 1;
      options.judge.stuck_seconds = 1;
      options.on_verdict = [&outcome](const Verdict& verdict) { outcome.verdict = verdict; };
      auto watchdog = Watchdog::Join(port, options);
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
      if (rank == 1) return RankProgress{RankDoing::kWorking, 1};
      return RankProgress{RankDoing::kWaiting, ++completed};
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

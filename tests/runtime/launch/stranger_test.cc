// Strangers at the watchdog and at the verdict line; ranks are threads of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/tcp/handshake.h"
#include "runtime/launch/failure_channel.h"
#include "runtime/launch/watchdog.h"
#include "tests/testing/thread_port.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

// What some stranger sends: hellos of every purpose and rank, and bytes by chance.
std::string SomeMessage(std::mt19937_64& random) {
  std::string bytes(random() % 80, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  if (random() % 2 == 0) return bytes;
  bytes = "partita1";
  bytes += static_cast<char>(random() % 7);
  for (int k = 0; k < 3; ++k) {
    const auto number = static_cast<uint32_t>(random() % 4);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  for (int k = 0; k < 32; ++k) bytes += static_cast<char>(random());
  return bytes;
}

void Speak(Connection& connection, std::mt19937_64& random) {
  for (uint64_t turn = random() % 3; turn > 0; --turn) {
    const std::string message = SomeMessage(random);
    if (random() % 3 == 0) {
      (void)send(connection.socket(), message.data(), message.size(), MSG_NOSIGNAL);
    } else {
      connection.Send(message);
    }
  }
}

// A rank with a watchdog, until it leaves or is judged.
struct WatchedRank {
  WatchedRank(Mail& mail, int rank, int size, const RunKey& key) {
    thread = std::thread([this, &mail, rank, size, key] {
      ThreadPort port(mail, rank, size);
      WatchdogOptions options;
      options.detector.silent_seconds = 2;
      options.on_verdict = [this](const Verdict& v) { verdict = v; };
      auto watchdog = Watchdog::Join(port, key, options);
      ASSERT_TRUE(watchdog.ok()) << watchdog.status();
      (*watchdog)->Leave();
    });
  }
  ~WatchedRank() {
    if (thread.joinable()) thread.join();
  }

  std::optional<Verdict> verdict;  // valid once the thread has ended
  std::thread thread;
};

// The last of `size` ranks, by hand: what it does up to its connection; the port of that.
int MeetAsLast(Mail& mail, int size) {
  ThreadPort port(mail, size - 1, size);
  std::string place;
  EXPECT_TRUE(GatherTexts(port, "12345 6 another-host elsewhere").ok());
  EXPECT_TRUE(BroadcastText(port, 0, place).ok());
  return std::stoi(place);
}

// Threads that connect to a port and speak, one after the other, until stopped.
class Strangers {
 public:
  Strangers(int count, std::function<absl::StatusOr<std::unique_ptr<Connection>>()> connect)
      : connect_(std::move(connect)) {
    for (int seed = 0; seed < count; ++seed) threads_.emplace_back([this, seed] { Run(seed); });
  }
  int Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return connections_;
  }

 private:
  void Run(int seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    std::vector<std::unique_ptr<Connection>> kept;
    while (!stop_) {
      auto connection = connect_();
      if (!connection.ok()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      ++connections_;
      Speak(**connection, random);
      kept.push_back(*std::move(connection));
      if (kept.size() > 30) kept.erase(kept.begin());
    }
  }

  const std::function<absl::StatusOr<std::unique_ptr<Connection>>()> connect_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0};
};

TEST(StrangerTest, AtTheWatchdogDisturbsNobodyAndTheDoorCloses) {
  constexpr int kSeeds = 3, kSize = 3;
  const RunKey key = RunKey::New();
  Mail mail;
  WatchedRank rank_0(mail, 0, kSize, key), rank_1(mail, 1, kSize, key);
  const int port = MeetAsLast(mail, kSize);
  Strangers strangers(kSeeds, [port] { return Connection::Open("127.0.0.1", port, 0.2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const Call call{.purpose = Purpose::kWatchdog, .caller = kSize - 1, .ranks = kSize};
  const auto connection = CallRank({"127.0.0.1"}, port, key, call, 5);
  ASSERT_TRUE(connection.ok()) << connection.status();
  (*connection)->Send("bye");
  std::string heard;
  while (heard != "over") {
    const auto word = (*connection)->ReceiveOne(5);
    ASSERT_TRUE(word.ok()) << word.status();
    heard = *word;
  }
  EXPECT_FALSE(Connection::Open("127.0.0.1", port, 0.2).ok());
  const int connections = strangers.Stop();
  rank_0.thread.join();
  rank_1.thread.join();
  EXPECT_FALSE(rank_0.verdict.has_value() || rank_1.verdict.has_value());
  EXPECT_GT(connections, 100);
  std::cout << connections << " connections of strangers with seeds 0 to " << kSeeds - 1 << "\n";
}

TEST(StrangerTest, AtTheFailureChannelTellsNothing) {
  constexpr int kSeeds = 4, kVerdicts = 10;
  const RunKey key = RunKey::New();
  auto line = FailureChannel::Open(key);
  ASSERT_TRUE(line.ok()) << line.status();
  const std::string name = (*line)->name();
  Strangers strangers(kSeeds, [&name] { return Connection::OpenUnix(name); });
  int told = 0;
  auto teller = std::async(std::launch::async, [&] {
    int success = 0;
    for (int k = 0; k < kVerdicts; ++k) {
      success += FailureChannel::Report(name, key, "rank 1 has ended") ? 1 : 0;
    }
    return success;
  });
  while (teller.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (const auto text = (*line)->Receive(5)) {
      EXPECT_EQ(*text, "rank 1 has ended");
      ++told;
    }
  }
  const int connections = strangers.Stop();
  while ((*line)->Receive(50).has_value()) ++told;
  EXPECT_EQ(teller.get(), kVerdicts);
  EXPECT_EQ(told, kVerdicts);
  EXPECT_GT(connections, 100);
  std::cout << connections << " connections of strangers with seeds 0 to " << kSeeds - 1 << "\n";
}

// A process that has the key and takes a rank's place, then sends what no watchdog does: it is the
// rank that is named, and the run ends in words.
TEST(StrangerTest, ARankThatSpeaksNonsenseIsNamed) {
  const RunKey key = RunKey::New();
  const uint32_t sizes[] = {0xffffffffu, 1u << 30};
  for (const uint32_t size : sizes) {
    Mail mail;
    WatchedRank hub(mail, 0, 2, key);
    const int port = MeetAsLast(mail, 2);
    const Call call{.purpose = Purpose::kWatchdog, .caller = 1, .ranks = 2};
    const auto connection = CallRank({"127.0.0.1"}, port, key, call, 5);
    ASSERT_TRUE(connection.ok()) << connection.status();
    (*connection)->Send("beat 9 9 9");
    (*connection)->Send("verdict 1 1 1 go away");
    (*connection)->Send(std::string(1000, '\0'));
    (void)send((*connection)->socket(), &size, sizeof size, MSG_NOSIGNAL);
    hub.thread.join();
    ASSERT_TRUE(hub.verdict.has_value());
    EXPECT_EQ(hub.verdict->rank, 1);
    EXPECT_EQ(hub.verdict->code, kRankFailed);
    EXPECT_THAT(hub.verdict->reason, HasSubstr("rank 1 (process 12345 on elsewhere)"));
  }
}

}  // namespace
}  // namespace partita

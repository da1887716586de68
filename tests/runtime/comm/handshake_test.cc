// Handshakes between threads of this process over loopback and Unix sockets, and strangers that
// speak parts of them.
#include "runtime/comm/tcp/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "graph/support/clock.h"
#include "graph/support/error_category.h"
#include "runtime/comm/tcp/reception.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

constexpr Call kOwn = {.purpose = Purpose::kMessages, .listener = 1, .ranks = 4};

Call CallOfRank(int rank) {
  Call call = kOwn;
  call.caller = rank;
  return call;
}

// A reception that a thread looks after, on loopback.
class Host {
 public:
  explicit Host(Reception::Options options = {.own = kOwn}) : key_(RunKey::New()) {
    auto listener = *Listener::Open(Listener::Reach::kThisHost);
    port_ = listener->port();
    reception_ = std::make_unique<Reception>(std::move(listener), key_, std::move(options));
    thread_ = std::thread([this] {
      while (!stop_) {
        for (Reception::Guest& guest : reception_->Receive(10)) {
          ++guests_;
          last_ = guest.rank;
          connections_.push_back(std::move(guest.connection));
        }
        if (reception_->strangers() > most_) most_ = reception_->strangers();
        strangers_ = reception_->strangers();
      }
    });
  }
  ~Host() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Call(const RunKey& key, const partita::Call& call, double seconds = 5) const {
    return CallRank({"127.0.0.1"}, port_, key, call, seconds).status();
  }
  std::unique_ptr<Connection> Connect() const { return *Connection::Open("127.0.0.1", port_, 5); }
  const RunKey& key() const { return key_; }
  int guests() const { return guests_; }
  int last() const { return last_; }
  size_t most_strangers() const { return most_; }
  size_t strangers() const { return strangers_; }
  std::string TurnedAway() {  // ends it
    Stop();
    return reception_->TurnedAway();
  }

 private:
  const RunKey key_;
  int port_ = 0;
  std::unique_ptr<Reception> reception_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<int> guests_{0}, last_{-1};
  std::atomic<size_t> most_{0}, strangers_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Everything that both ends of a handshake say, by a caller with the key whose bytes are kept.
struct Recording {
  std::string hello, challenge, proof, answer;
};

// Between a caller with the key and the host: passes messages on and keeps them.
Recording Record(const Host& host, const Call& call) {
  auto listener = *Listener::Open(Listener::Reach::kThisHost);
  auto caller = std::async(std::launch::async, [&, port = listener->port()] {
    return CallRank({"127.0.0.1"}, port, host.key(), call, 5).status();
  });
  std::unique_ptr<Connection> left;
  while (left == nullptr) left = listener->Accept();
  const auto right = host.Connect();
  const auto pass = [](Connection& from, Connection& to) {
    const std::string message = *from.ReceiveOne(5);
    to.Send(message);
    return message;
  };
  Recording record;
  record.hello = pass(*left, *right);
  record.challenge = pass(*right, *left);
  record.proof = pass(*left, *right);
  record.answer = pass(*right, *left);
  EXPECT_TRUE(caller.get().ok());
  return record;
}

// What the host says next; empty if it closes the connection.
std::string Reply(Connection& connection, const std::string& message) {
  connection.Send(message);
  return connection.ReceiveOne(3).value_or("");
}

TEST(HandshakeTest, WhoHasTheKeyIsLetIn) {
  const Host host;
  EXPECT_EQ(host.Call(host.key(), CallOfRank(3)), absl::OkStatus());
  while (host.guests() == 0) std::this_thread::yield();
  EXPECT_EQ(host.last(), 3);
}

TEST(HandshakeTest, AnotherKeyIsToldInWords) {
  Host host;
  const absl::Status status = host.Call(RunKey::New(), CallOfRank(3));
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("has another key than this rank"));
  EXPECT_THAT(host.TurnedAway(), HasSubstr("with another key turned away"));
  EXPECT_EQ(host.guests(), 0);
}

TEST(HandshakeTest, OtherWorldsAndRanksThatAreThereAreRefusedInWords) {
  const Host host({.own = kOwn,
                   .refusal = [](int rank) { return rank == 2 ? "there is another rank 2" : ""; }});
  Call other_world = CallOfRank(3);
  other_world.ranks = 5;
  const absl::Status world = host.Call(host.key(), other_world);
  EXPECT_TRUE(IsUsageError(world)) << world;
  EXPECT_THAT(world.message(), HasSubstr("rank 3 is one of 5 ranks, rank 1 one of 4"));
  EXPECT_THAT(host.Call(host.key(), CallOfRank(7)).message(), HasSubstr("there is no rank 7"));
  const absl::Status twice = host.Call(host.key(), CallOfRank(2));
  EXPECT_TRUE(IsUsageError(twice)) << twice;
  EXPECT_THAT(twice.message(), HasSubstr("there is another rank 2"));
  EXPECT_EQ(host.guests(), 0);
}

TEST(HandshakeTest, AnotherPurposeOrListenerIsNotAnswered) {
  const Host host;
  Call purpose = CallOfRank(3), listener = CallOfRank(3);
  purpose.purpose = Purpose::kWatchdog;
  listener.listener = 2;
  for (const Call& call : {purpose, listener}) {
    EXPECT_TRUE(absl::IsUnavailable(host.Call(host.key(), call, 0.3)));
  }
  EXPECT_EQ(host.guests(), 0);
}

// A recorded handshake convinces nobody again: neither as it was, nor towards another rank, for
// another purpose, nor what the listener said said back to it.
TEST(HandshakeTest, RecordedAndReflectedMessagesConvinceNobody) {
  Host host;
  const Recording record = Record(host, CallOfRank(3));
  while (host.guests() == 0) std::this_thread::yield();
  {
    const auto connection = host.Connect();
    EXPECT_FALSE(Reply(*connection, record.hello).empty());
    EXPECT_EQ(Reply(*connection, record.proof), "");  // of other random bytes
  }
  {
    const auto connection = host.Connect();
    const std::string challenge = Reply(*connection, record.hello);
    EXPECT_NE(challenge, record.challenge);
    EXPECT_EQ(Reply(*connection, challenge.substr(32)), "");  // its own MAC
  }
  {
    // The listener's challenge as a hello's random bytes.
    const auto first = host.Connect();
    const std::string challenge = Reply(*first, record.hello);
    const auto second = host.Connect();
    const std::string hello = record.hello.substr(0, record.hello.size() - 32);
    const std::string other = Reply(*second, hello + challenge.substr(0, 32));
    EXPECT_EQ(Reply(*first, other.substr(32)), "");
  }
  // To a listener of the same key for another purpose, or of another rank.
  for (const Call& own : {Call{.purpose = Purpose::kMeeting, .listener = 1, .ranks = 4},
                          Call{.purpose = Purpose::kMessages, .listener = 2, .ranks = 4}}) {
    Host other({.own = own});
    const auto connection = other.Connect();
    EXPECT_EQ(Reply(*connection, record.hello), "");
    EXPECT_EQ(other.guests(), 0);
  }
  // A listener that answers a caller with what another one said.
  auto listener = *Listener::Open(Listener::Reach::kThisHost);
  auto caller = std::async(std::launch::async, [&, port = listener->port()] {
    auto connection = *Connection::Open("127.0.0.1", port, 5);
    return CallOn(*connection, host.key(), CallOfRank(3), 5);
  });
  std::unique_ptr<Connection> left;
  while (left == nullptr) left = listener->Accept();
  ASSERT_TRUE(left->ReceiveOne(5).ok());
  left->Send(record.challenge);
  EXPECT_TRUE(absl::IsPermissionDenied(caller.get()));
  EXPECT_EQ(host.guests(), 1);
}

TEST(HandshakeTest, AnAnswerThatWasChangedIsNotBelieved) {
  Host host;
  for (const bool refuses : {false, true}) {
    auto listener = *Listener::Open(Listener::Reach::kThisHost);
    auto caller = std::async(std::launch::async, [&, port = listener->port()] {
      auto connection = *Connection::Open("127.0.0.1", port, 5);
      return CallOn(*connection, host.key(), CallOfRank(3), 5);
    });
    std::unique_ptr<Connection> left;
    while (left == nullptr) left = listener->Accept();
    const auto right = host.Connect();
    left->Send(Reply(*right, *left->ReceiveOne(5)));
    std::string answer = Reply(*right, *left->ReceiveOne(5));
    if (refuses) {
      answer += "go away";
    } else {
      answer[0] ^= 1;
    }
    left->Send(answer);
    EXPECT_TRUE(absl::IsPermissionDenied(caller.get()));
  }
}

// A limit of a millisecond ends soon after that, where who answers is silent or nobody does.
TEST(HandshakeTest, ShortLimitsAreKept) {
  const auto silent = *Listener::Open(Listener::Reach::kThisHost);
  const auto host_only = *Listener::OpenUnix("partita-test-" + std::to_string(getpid()));
  int nobody = 0;
  {
    nobody = (*Listener::Open(Listener::Reach::kThisHost))->port();
  }
  const RunKey key = RunKey::New();
  std::optional<RunKey> given;
  const auto least_of_ten = [](const auto& call) {
    int64_t least = INT64_MAX;
    for (int k = 0; k < 10; ++k) {
      const int64_t begin = SteadyNow();
      EXPECT_TRUE(absl::IsUnavailable(call()));
      least = std::min(least, SteadyNow() - begin);
    }
    return least;
  };
  constexpr int64_t kMost = 25'000'000;  // ns
  EXPECT_LT(least_of_ten([&] {
              const auto connection = *Connection::Open("127.0.0.1", silent->port(), 5);
              return CallOn(*connection, key, CallOfRank(3), 0.001);
            }),
            kMost);
  EXPECT_LT(least_of_ten([&] {
              return CallRank({"127.0.0.1"}, nobody, key, CallOfRank(3), 0.001).status();
            }),
            kMost);
  EXPECT_LT(least_of_ten([&] {
              return CallWithinHost("partita-test-" + std::to_string(getpid()), given,
                                    CallOfRank(3), 0.001)
                  .status();
            }),
            kMost);
}

// Strangers connect and say nothing, or a part of a message: ranks are let in at once all the same,
// no more than a few strangers are kept, and they go.
TEST(HandshakeTest, SilentStrangersHoldNobodyUp) {
  Host host;
  std::vector<std::unique_ptr<Connection>> silent;
  for (size_t k = 0; k < 3 * Reception::kMostStrangers; ++k) {
    silent.push_back(host.Connect());
    if (k % 2 == 0) (void)send(silent.back()->socket(), "\x35\0\0", 3, MSG_NOSIGNAL);
  }
  const int64_t begin = SteadyNow();
  for (int k = 0; k < 20; ++k)
    EXPECT_EQ(host.Call(host.key(), CallOfRank(k % 4)), absl::OkStatus());
  EXPECT_LT(SteadyNow() - begin, 4'000'000'000);
  EXPECT_LE(host.most_strangers(), Reception::kMostStrangers);
  const int64_t end = SteadyNow() + 10'000'000'000;
  while (host.strangers() > 0 && SteadyNow() < end) std::this_thread::yield();
  EXPECT_EQ(host.strangers(), 0u);
  EXPECT_THAT(host.TurnedAway(), HasSubstr("that were no ranks turned away"));
}

TEST(HandshakeTest, SizesAreBoundedBeforeMemoryIsTaken) {
  const Host host;
  for (const uint32_t size : {65u, 1u << 20, 1u << 31, 0xffffffffu}) {
    const auto connection = host.Connect();
    (void)send(connection->socket(), &size, sizeof size, MSG_NOSIGNAL);
    EXPECT_FALSE(connection->ReceiveOne(3).ok()) << size;  // closed at once
  }
  EXPECT_EQ(host.Call(host.key(), CallOfRank(2)), absl::OkStatus());
}

// A stranger that has seen whole handshakes says their messages, damaged and whole, in any order
// and at every state: nobody is let in, and ranks that come meanwhile are.
TEST(HandshakeTest, AStrangerThatSaysEveryMessageIsNotLetIn) {
  constexpr int kStrangers = 3'000;
  constexpr int kEvery = 100;  // of them a rank comes
  Host host;
  const Recording record = Record(host, CallOfRank(3));
  const std::string messages[] = {record.hello,           record.challenge, record.proof,
                                  record.answer,          "other key",      "",
                                  std::string(64, '\xff')};
  std::mt19937_64 random(13);
  int damaged = 0, said = 0;
  for (int k = 0; k < kStrangers; ++k) {
    const auto stranger = host.Connect();
    if (random() % 2 == 0) (void)Reply(*stranger, record.hello);
    for (uint64_t turn = 1 + random() % 3; turn > 0; --turn) {
      std::string message = messages[random() % std::size(messages)];
      if (random() % 2 == 0 && !message.empty()) {
        ++damaged;
        const size_t at = random() % message.size();
        if (random() % 3 == 0) {
          message.resize(at);
        } else {
          message[at] = static_cast<char>(message[at] ^ (1 << random() % 8));
        }
      }
      ++said;
      if (random() % 4 == 0) {  // without its size
        (void)send(stranger->socket(), message.data(), message.size(), MSG_NOSIGNAL);
      } else {
        stranger->Send(message);
      }
    }
    if (k % kEvery == 0) {
      ASSERT_EQ(host.Call(host.key(), CallOfRank(k % 4)), absl::OkStatus());
    }
  }
  host.Stop();
  EXPECT_EQ(host.guests(), 1 + kStrangers / kEvery);
  EXPECT_LE(host.most_strangers(), Reception::kMostStrangers);
  std::cout << kStrangers << " strangers of seed 13 said " << said << " messages, " << damaged
            << " of them damaged; " << host.guests() << " ranks were let in\n";
}

// The caller believes no such stranger either.
TEST(HandshakeTest, ACallerBelievesNoStrangerThatListens) {
  constexpr int kStrangers = 300;
  Host host;
  const Recording record = Record(host, CallOfRank(3));
  auto listener = *Listener::Open(Listener::Reach::kThisHost);
  std::atomic<bool> stop{false};
  std::thread stranger([&] {
    std::mt19937_64 random(17);
    while (!stop) {
      WaitToRead({listener->socket()}, 10);
      const auto connection = listener->Accept();
      if (connection == nullptr) continue;
      const std::string messages[] = {record.challenge, record.answer, record.hello, ""};
      for (uint64_t turn = random() % 3; turn > 0; --turn) {
        std::string message = messages[random() % std::size(messages)];
        if (random() % 2 == 0 && !message.empty()) message[random() % message.size()] ^= 4;
        connection->Send(message);
      }
    }
  });
  for (int k = 0; k < kStrangers; ++k) {
    auto connection = *Connection::Open("127.0.0.1", listener->port(), 5);
    EXPECT_FALSE(CallOn(*connection, host.key(), CallOfRank(3), 0.05).ok());
  }
  stop = true;
  stranger.join();
  std::cout << kStrangers << " listeners of seed 17\n";
}

TEST(HandshakeTest, WithinAHostTheKeyIsGivenToProcessesOfTheSameUser) {
  const std::string name = "partita-handshake-test-" + std::to_string(getpid());
  const RunKey key = RunKey::New();
  Reception reception(*Listener::OpenUnix(name), key, {.own = kOwn, .gives_key = true});
  std::optional<RunKey> given;
  auto caller = std::async(std::launch::async,
                           [&] { return CallWithinHost(name, given, CallOfRank(3), 5).status(); });
  size_t guests = 0;
  while (caller.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    guests += reception.Receive(10).size();
  }
  EXPECT_EQ(caller.get(), absl::OkStatus());
  EXPECT_EQ(guests, 1u);
  ASSERT_TRUE(given.has_value());
  EXPECT_EQ(given->bytes(), key.bytes());
  EXPECT_FALSE(Listener::OpenUnix(name).ok());  // the name is taken
}

}  // namespace
}  // namespace partita

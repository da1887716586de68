// Ranks as threads of this process that meet over loopback, and strangers among them.
#include "runtime/comm/tcp/tcp_meeting.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "graph/support/clock.h"
#include "graph/support/error_category.h"
#include "runtime/comm/message_port.h"
#include "runtime/comm/tcp/handshake.h"
#include "runtime/comm/tcp/reception.h"
#include "runtime/comm/tcp/tcp_port.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

int FreePort() { return (*Listener::Open(Listener::Reach::kThisHost))->port(); }

std::future<absl::StatusOr<MetRanks>> Start(TcpMeeting meeting) {
  return std::async(std::launch::async, [meeting] { return MeetRanks(meeting); });
}

// All ranks of a meeting.
std::vector<absl::StatusOr<MetRanks>> MeetAll(const TcpMeeting& meeting) {
  std::vector<std::future<absl::StatusOr<MetRanks>>> ranks;
  for (int rank = 0; rank < meeting.size; ++rank) {
    TcpMeeting own = meeting;
    own.rank = rank;
    ranks.push_back(Start(own));
  }
  std::vector<absl::StatusOr<MetRanks>> met;
  for (auto& rank : ranks) met.push_back(rank.get());
  return met;
}

// Every rank has a connection to every other one, and says its number through it.
void ExpectMet(std::vector<absl::StatusOr<MetRanks>>& met) {
  for (size_t from = 0; from < met.size(); ++from) {
    ASSERT_TRUE(met[from].ok()) << met[from].status();
    EXPECT_EQ(met[from]->key.bytes(), met[0]->key.bytes());
    for (size_t to = 0; to < met.size(); ++to) {
      ASSERT_EQ(met[from]->connections[to] == nullptr, from == to);
      if (from != to) met[from]->connections[to]->Send(std::to_string(from));
    }
  }
  for (size_t to = 0; to < met.size(); ++to) {
    for (size_t from = 0; from < met.size(); ++from) {
      if (from == to) continue;
      EXPECT_EQ(met[to]->connections[from]->ReceiveOne(5).value_or(""), std::to_string(from));
    }
  }
}

// The name of this end of a connection: an address of IPv4, or empty.
std::string AddressOf(const Connection& connection) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  char text[INET_ADDRSTRLEN] = "";
  getsockname(connection.socket(), reinterpret_cast<sockaddr*>(&address), &size);
  if (address.sin_family == AF_INET) inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

TEST(TcpMeetingTest, RanksWithAKeyMeet) {
  auto met = MeetAll({.size = 5, .port = FreePort(), .seconds = 20, .key = RunKey::New()});
  ExpectMet(met);
}

TEST(TcpMeetingTest, RanksWithoutAKeyMeetOverLoopbackWhateverTheAddressIs) {
  for (const char* address : {"127.0.0.1", "203.0.113.7", "no-such-host.invalid"}) {
    auto met = MeetAll({.size = 4, .address = address, .port = FreePort(), .seconds = 20});
    ExpectMet(met);
    for (const auto& rank : met) {
      for (const auto& connection : rank->connections) {
        if (connection == nullptr) continue;
        EXPECT_THAT(AddressOf(*connection), testing::AnyOf("", "127.0.0.1"));
      }
    }
  }
}

TEST(TcpMeetingTest, RanksThatHaveMetGatherTheirTexts) {
  for (int size : {2, 3, 5, 8}) {
    const TcpMeeting meeting{.size = size, .port = FreePort(), .seconds = 20};
    const auto text = [](int rank) {
      return std::string(static_cast<size_t>(30'000 * rank), static_cast<char>('a' + rank));
    };
    std::vector<std::future<std::vector<std::string>>> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(std::async(std::launch::async, [meeting, rank, text] {
        TcpMeeting own = meeting;
        own.rank = rank;
        KeyedPort met = *OpenTcpPort(own);
        const std::vector<std::string> bytes = *GatherBytes(*met.port, std::to_string(rank));
        std::vector<std::string> texts = *GatherTexts(*met.port, text(rank));
        texts.insert(texts.end(), bytes.begin(), bytes.end());
        return texts;
      }));
    }
    std::vector<std::string> wanted;
    for (int rank = 0; rank < size; ++rank) wanted.push_back(text(rank));
    for (int rank = 0; rank < size; ++rank) wanted.push_back(std::to_string(rank));
    for (auto& rank : ranks) EXPECT_EQ(rank.get(), wanted) << size;
  }
}

TEST(TcpMeetingTest, TextsLongerThanAllowedAreRefusedOnAllRanks) {
  const TcpMeeting meeting{.size = 2, .port = FreePort(), .seconds = 20};
  std::vector<std::future<absl::Status>> ranks;
  for (int rank = 0; rank < meeting.size; ++rank) {
    ranks.push_back(std::async(std::launch::async, [meeting, rank] {
      TcpMeeting own = meeting;
      own.rank = rank;
      KeyedPort met = *OpenTcpPort(own);
      return GatherTexts(*met.port, std::string(rank == 1 ? 11 : 3, 'x'), 10).status();
    }));
  }
  for (auto& rank : ranks) {
    const absl::Status status = rank.get();
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("rank 1 wants to tell 11 bytes; wanted at most 10"));
  }
}

TEST(TcpMeetingTest, ARankThatGoesSilentAfterTheMeetingIsNotWaitedForLongerThanAllowed) {
  const TcpMeeting meeting{.size = 2, .port = FreePort(), .seconds = 20};
  std::atomic<bool> done{false};
  auto silent = std::async(std::launch::async, [&meeting, &done] {
    TcpMeeting own = meeting;
    own.rank = 1;
    const KeyedPort met = *OpenTcpPort(own);
    while (!done) std::this_thread::yield();
  });
  KeyedPort met = *OpenTcpPort(meeting);
  met.port->LimitWaiting(0.3);
  const int64_t begin = SteadyNow();
  const absl::Status status = GatherTexts(*met.port, "here").status();
  EXPECT_LT(SteadyNow() - begin, 5'000'000'000);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("a rank has not answered for 0.3 s"));
  done = true;
  silent.get();
}

TEST(TcpMeetingTest, WhoIsMissingAndWhoWasTurnedAwayIsSaid) {
  const int port = FreePort();
  auto rank_0 = Start({.size = 3, .port = port, .seconds = 3, .key = RunKey::New()});
  auto other = Start({.rank = 1, .size = 3, .port = port, .seconds = 20, .key = RunKey::New()});
  const auto refused = other.get();
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("rank 0 was not reached"), HasSubstr("has another key")));
  const auto missing = rank_0.get();
  EXPECT_TRUE(absl::IsUnavailable(missing.status()));
  EXPECT_THAT(missing.status().message(),
              AllOf(HasSubstr("ranks 1 2 did not come to rank 0 within 3 s"),
                    HasSubstr("with another key turned away")));
}

TEST(TcpMeetingTest, WithoutAKeyItIsSaidHowToGiveOne) {
  const int port = FreePort();
  auto rank_0 = Start({.size = 2, .port = port, .seconds = 0.3});
  auto rank_1 = Start({.rank = 1, .size = 2, .port = port + 1, .seconds = 0.3});
  for (const auto& met : {rank_0.get(), rank_1.get()}) {
    EXPECT_TRUE(absl::IsUnavailable(met.status()));
    EXPECT_THAT(met.status().message(), AllOf(HasSubstr("PARTITA_KEY"), HasSubstr("--key_file")));
  }
}

TEST(TcpMeetingTest, RanksThatDisagreeAreToldSo) {
  const int port = FreePort();
  const RunKey key = RunKey::New();
  auto rank_0 = Start({.size = 3, .port = port, .seconds = 3, .key = key});
  const auto world = Start({.rank = 1, .size = 2, .port = port, .seconds = 20, .key = key}).get();
  EXPECT_TRUE(IsUsageError(world.status())) << world.status();
  EXPECT_THAT(world.status().message(), HasSubstr("rank 1 is one of 2 ranks, rank 0 one of 3"));
  auto first = Start({.rank = 1, .size = 3, .port = port, .seconds = 3, .key = key});
  auto second = Start({.rank = 1, .size = 3, .port = port, .seconds = 3, .key = key});
  const std::string said =
      std::string(first.get().status().message()) + std::string(second.get().status().message());
  EXPECT_THAT(said, HasSubstr("there is another rank 1 already"));
  EXPECT_FALSE(rank_0.get().ok());
}

// A process that has the key and calls rank 0 as rank 1, then says nothing or what is no place.
TEST(TcpMeetingTest, AJoinerThatGoesSilentOrSpeaksNonsenseIsNamedInTime) {
  const RunKey key = RunKey::New();
  const std::string nonsense[] = {"",
                                  "x",
                                  "70000 127.0.0.1",
                                  "0 127.0.0.1",
                                  "-5 127.0.0.1",
                                  "29500",
                                  "29500 somewhere",
                                  "29500 127.0.0.1 " + std::string(100'000, '1')};
  for (size_t k = 0; k <= std::size(nonsense); ++k) {
    const int port = FreePort();
    const int64_t begin = SteadyNow();
    auto rank_0 = Start({.size = 2, .port = port, .seconds = 1, .key = key});
    const Call call{.purpose = Purpose::kMeeting, .caller = 1, .ranks = 2};
    const auto joiner = CallRank({"127.0.0.1"}, port, key, call, 5);
    ASSERT_TRUE(joiner.ok()) << joiner.status();
    if (k < std::size(nonsense)) (*joiner)->Send(nonsense[k]);
    const auto met = rank_0.get();
    EXPECT_TRUE(absl::IsUnavailable(met.status())) << met.status();
    EXPECT_THAT(met.status().message(), HasSubstr("rank 1"));
    EXPECT_LT(SteadyNow() - begin, 4'000'000'000);
  }
}

// A rank 0 that has the key, and says nothing or nonsense about where the others are.
TEST(TcpMeetingTest, ARank0ThatGoesSilentOrSpeaksNonsenseIsNamedInTime) {
  const RunKey key = RunKey::New();
  for (const std::string table :
       {"silent", "", "-", "-\n-\n-\n-", "-\n99999 127.0.0.1\n-", "-\n1 nowhere\n-"}) {
    auto listener = *Listener::Open(Listener::Reach::kAllHosts);
    auto rank_2 =
        Start({.rank = 2, .size = 3, .port = listener->port(), .seconds = 1.5, .key = key});
    Reception reception(std::move(listener), key,
                        {.own = {.purpose = Purpose::kMeeting, .ranks = 3}});
    std::vector<Reception::Guest> guests;
    while (guests.empty()) guests = reception.Receive(10);
    if (table != "silent") guests[0].connection->Send(table);
    const auto met = rank_2.get();
    EXPECT_TRUE(absl::IsUnavailable(met.status())) << table << ": " << met.status();
  }
}

// Strangers at the ports of a meeting, from before it begins until it has ended: connections that
// are silent, bytes by chance, and hellos of every purpose and rank.
TEST(TcpMeetingTest, StrangersDoNotDisturbAMeeting) {
  constexpr int kMeetings = 10, kStrangers = 4;
  std::atomic<int> connections{0};
  for (int m = 0; m < kMeetings; ++m) {
    const int port = FreePort();
    std::atomic<bool> stop{false};
    std::vector<std::thread> strangers;
    for (int s = 0; s < kStrangers; ++s) {
      strangers.emplace_back([&, seed = m * kStrangers + s] {
        std::mt19937_64 random(static_cast<uint64_t>(seed));
        std::vector<std::unique_ptr<Connection>> open;
        while (!stop) {
          auto connection = Connection::Open("127.0.0.1", port, 0.2);
          if (!connection.ok()) continue;
          ++connections;
          if (random() % 3 == 0) {
            std::string bytes(random() % 200, '\0');
            for (char& c : bytes) c = static_cast<char>(random());
            (*connection)->Send(bytes);
          } else if (random() % 2 == 0) {
            const Call call{.purpose = static_cast<Purpose>(1 + random() % 5),
                            .caller = static_cast<int>(random() % 5),
                            .listener = static_cast<int>(random() % 5),
                            .ranks = 4};
            (void)CallOn(**connection, RunKey::New(), call, 0.1);
          }
          open.push_back(*std::move(connection));
          if (open.size() > 50) open.erase(open.begin());
        }
      });
    }
    auto met = MeetAll({.size = 4, .port = port, .seconds = 30, .key = RunKey::New()});
    stop = true;
    for (std::thread& stranger : strangers) stranger.join();
    ExpectMet(met);
    // Nobody listens there any more.
    EXPECT_FALSE(Connection::Open("127.0.0.1", port, 0.2).ok());
  }
  std::cout << kMeetings << " meetings of 4 ranks, beside " << connections
            << " connections of strangers with seeds 0 to " << kMeetings * kStrangers - 1 << "\n";
}

}  // namespace
}  // namespace partita

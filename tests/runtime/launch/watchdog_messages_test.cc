#include "runtime/launch/watchdog_messages.h"

#include <cstdint>
#include <iostream>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

constexpr int kSenders = 4;

const WatchdogMessage kMessages[] = {RankProgress{RankState::kWaiting, 17, INT64_MAX},
                                     ByeMessage(),
                                     FailMessage{3, "no such plan"},
                                     AliveMessage(),
                                     OverMessage(),
                                     Verdict{3, 5, "rank 3 has ended without a message", true}};

TEST(WatchdogMessagesTest, MessagesAreReadAsWritten) {
  for (const WatchdogMessage& message : kMessages) {
    const auto read = MessageOf(TextOf(message), kSenders);
    ASSERT_TRUE(read.has_value()) << TextOf(message);
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(TextOf(*read), TextOf(message));
  }
  const auto verdict = std::get<Verdict>(*MessageOf(TextOf(kMessages[5]), kSenders));
  EXPECT_EQ(verdict.rank, 3);
  EXPECT_TRUE(verdict.common);
}

TEST(WatchdogMessagesTest, RanksCodesAndNumbersOutOfRangeAreNoMessages) {
  for (const char* text : {"",
                           "bye ",
                           "beat",
                           "beat 3 1 1",
                           "beat -1 1 1",
                           "beat 1 -5 1",
                           "beat 1 1 -1",
                           "beat 1 1 9223372036854775808",
                           "beat 1 1 1 1",
                           "beat x 1 1",
                           "fail",
                           "fail 3",
                           "fail 256 why",
                           "fail 0 why",
                           "fail -1 why",
                           "verdict 4 5 0 why",
                           "verdict -1 5 0 why",
                           "verdict 1 300 0 why",
                           "verdict 1 5 2 why",
                           "verdict 1 5 0",
                           "hello"}) {
    EXPECT_FALSE(MessageOf(text, kSenders).has_value()) << text;
  }
}

TEST(WatchdogMessagesTest, LongReasonsAreCutAndLongerOnesRefused) {
  const std::string text = TextOf(FailMessage{3, std::string(100'000, 'x')});
  EXPECT_EQ(text.size(), kLongestReason + 7);
  EXPECT_TRUE(MessageOf(text, kSenders).has_value());
  EXPECT_FALSE(MessageOf(text + "x", kSenders).has_value());
}

// What is read of a damaged message can be sent again: it has ranks, codes and states that exist.
TEST(WatchdogMessagesTest, DamagedMessagesAreRefusedOrMessages) {
  constexpr int kDamaged = 100'000;
  std::mt19937_64 random(7);
  int read = 0;
  for (int k = 0; k < kDamaged; ++k) {
    std::string text = TextOf(kMessages[random() % std::size(kMessages)]);
    for (uint64_t edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      const auto c = static_cast<char>(random());
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 4);
      } else if (random() % 2 == 0) {
        text.insert(at, 1, c);
      } else {
        text[at] = c;
      }
    }
    const auto message = MessageOf(text, kSenders);
    if (!message.has_value()) continue;
    ++read;
    const auto again = MessageOf(TextOf(*message), kSenders);
    ASSERT_TRUE(again.has_value()) << text;
    ASSERT_EQ(TextOf(*again), TextOf(*message));
  }
  std::cout << kDamaged << " damaged messages of seed 7, " << read << " still messages\n";
  EXPECT_GT(read, kDamaged / 100);
}

}  // namespace
}  // namespace partita

#include "runtime/launch/watchdog_words.h"

#include <cstdint>
#include <iostream>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

constexpr int kRanks = 4;

const WatchdogWord kWords[] = {RankProgress{RankDoing::kWaiting, 17, INT64_MAX},
                               ByeWord(),
                               FailWord{3, "no such plan"},
                               AliveWord(),
                               OverWord(),
                               Verdict{3, 5, "rank 3 has ended without a word", true}};

TEST(WatchdogWordsTest, WordsAreReadAsWritten) {
  for (const WatchdogWord& word : kWords) {
    const auto read = WordOf(TextOf(word), kRanks);
    ASSERT_TRUE(read.has_value()) << TextOf(word);
    EXPECT_EQ(read->index(), word.index());
    EXPECT_EQ(TextOf(*read), TextOf(word));
  }
  const auto verdict = std::get<Verdict>(*WordOf(TextOf(kWords[5]), kRanks));
  EXPECT_EQ(verdict.rank, 3);
  EXPECT_TRUE(verdict.common);
}

TEST(WatchdogWordsTest, RanksCodesAndNumbersOutOfRangeAreNoWords) {
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
    EXPECT_FALSE(WordOf(text, kRanks).has_value()) << text;
  }
}

TEST(WatchdogWordsTest, LongReasonsAreCutAndLongerOnesRefused) {
  const std::string text = TextOf(FailWord{3, std::string(100'000, 'x')});
  EXPECT_EQ(text.size(), kLongestReason + 7);
  EXPECT_TRUE(WordOf(text, kRanks).has_value());
  EXPECT_FALSE(WordOf(text + "x", kRanks).has_value());
}

// What is read of a damaged word can be said again: it has ranks, codes and doings that exist.
TEST(WatchdogWordsTest, DamagedWordsAreRefusedOrWords) {
  constexpr int kDamaged = 100'000;
  std::mt19937_64 random(7);
  int read = 0;
  for (int k = 0; k < kDamaged; ++k) {
    std::string text = TextOf(kWords[random() % std::size(kWords)]);
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
    const auto word = WordOf(text, kRanks);
    if (!word.has_value()) continue;
    ++read;
    const auto again = WordOf(TextOf(*word), kRanks);
    ASSERT_TRUE(again.has_value()) << text;
    ASSERT_EQ(TextOf(*again), TextOf(*word));
  }
  std::cout << kDamaged << " damaged words of seed 7, " << read << " still words\n";
  EXPECT_GT(read, kDamaged / 100);
}

}  // namespace
}  // namespace partita

// Text for people: tables, wrapping, words of shells, and the time that is left.
#include "tools/cli/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tools/cli/time_left.h"

namespace partita {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(WrappedTextTest, BreaksAtBlanksAndIndents) {
  EXPECT_EQ(WrappedText("one two three", 80, 2), "one two three\n");
  EXPECT_EQ(WrappedText("one two three", 8, 2), "one two\n  three\n");
  EXPECT_EQ(WrappedText("  --flag    of something", 16, 12),
            "  --flag    of\n            something\n");
  EXPECT_EQ(WrappedText("averylongword and more", 6, 1), "averylongword\n and\n more\n");
  EXPECT_EQ(WrappedText("", 6, 1), "\n");
  EXPECT_EQ(WrappedText("took 12 ms, 34 % of it", 9, 0), "took\n12 ms,\n34 % of\nit\n");
  EXPECT_EQ(WrappedText("12 ms", 3, 0), "12\nms\n");
}

TEST(WrappedLinesTest, LeavesWhatIsCopiedWhole) {
  EXPECT_EQ(WrappedLines("one two three\n  four five six\n", 10),
            "one two\n  three\n  four\n    five\n    six\n");
  EXPECT_EQ(WrappedLines("short\n\nno end", 10), "short\n\nno end");
  EXPECT_EQ(WrappedLines("one two three", 10), "one two\n  three");
  EXPECT_EQ(WrappedLines("", 10), "");
  for (const char* kept :
       {"next: partita verify x", "  or: partita simulate x", "Try: partita help"}) {
    EXPECT_EQ(WrappedLines(kept, 10), kept);
  }
}

std::vector<std::vector<std::string>> Numbers(int columns, const std::string& name) {
  std::vector<std::vector<std::string>> rows = {{"name"}, {name}, {"b"}};
  for (int c = 0; c < columns; ++c) {
    rows[0].push_back("heading" + std::to_string(c));
    rows[1].push_back("1.5");
    rows[2].push_back("22.5");
  }
  return rows;
}

TEST(TableTextTest, FitsTheWidthByFurtherTables) {
  const std::string whole = TableText(Numbers(3, "a"), 1, 80);
  EXPECT_EQ(whole,
            "name  heading0  heading1  heading2\na          1.5       1.5       1.5\n"
            "b         22.5      22.5      22.5\n");
  const std::string wrapped = TableText(Numbers(9, "a"), 1, 50);
  for (absl::string_view line : absl::StrSplit(wrapped, '\n')) EXPECT_LE(line.size(), 50u) << line;
  for (int c = 0; c < 9; ++c) EXPECT_THAT(wrapped, HasSubstr("heading" + std::to_string(c)));
  EXPECT_THAT(wrapped, HasSubstr("\n\nname"));
}

TEST(TableTextTest, LongNamesStandAlone) {
  const std::string name(60, 'x');
  const std::string text = TableText(Numbers(4, name), 1, 70);
  EXPECT_THAT(text, HasSubstr(name + "\n"));
  EXPECT_THAT(text, Not(HasSubstr("\n\nname")));
}

TEST(TableTextTest, LastTextsWrapAndHeadingsHaveLines) {
  const std::string text = TableText({{"a", "one two three four five six seven eight"}}, 2, 30);
  EXPECT_EQ(text, "a  one two three four five six\n   seven eight\n");
  EXPECT_EQ(TableText({{"n", "peak\nMB"}, {"a", "1"}}, 1, 80), "   peak\nn    MB\na     1\n");
  EXPECT_EQ(TableText({}, 1, 80), "");
}

TEST(ByteUnitTest, OneUnitOfAll) {
  EXPECT_STREQ(UnitFor(Bytes(700'000'000)).name, "MB");
  EXPECT_EQ(UnitFor(Bytes(700'000'000)).In(Bytes(12'240'000)), "12.2");
  EXPECT_EQ(UnitFor(Bytes(700'000'000)).In(Bytes(40)), "<0.1");
  EXPECT_EQ(UnitFor(Bytes(700'000'000)).In(Bytes(0)), "0.0");
  EXPECT_EQ(UnitFor(Bytes(900)).In(Bytes(12)), "12");
}

TEST(ShellWordTest, QuotesWhatTheShellWouldRead) {
  EXPECT_EQ(ShellWord("a/b-c.plan.textproto"), "a/b-c.plan.textproto");
  EXPECT_EQ(ShellWord("my net"), "'my net'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord("$(x)"), "'$(x)'");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("~x"), "'~x'");
  EXPECT_EQ(ShellPath("-o x"), "'./-o x'");
}

TEST(TimeLeftTest, CountsDownSteadily) {
  TimeLeft left;
  left.Note(0, 100, 0);
  EXPECT_FALSE(left.Seconds().has_value());
  double before = 0;
  for (int k = 1; k < 100; ++k) {
    // One step a second, now faster, now slower.
    left.Note(k, 100, k + 0.3 * std::sin(k));
    if (k < 3) continue;
    ASSERT_TRUE(left.Seconds().has_value());
    EXPECT_NEAR(*left.Seconds(), 100 - k, 0.25 * (100 - k) + 2.5);
    if (k > 3) {
      EXPECT_LT(*left.Seconds(), before + 3) << k;
    }
    before = *left.Seconds();
  }
}

TEST(TimeLeftTest, FollowsAnotherSpeedAndTheLimit) {
  TimeLeft left;
  for (int k = 0; k <= 50; ++k) left.Note(k, 1050, k);
  for (int k = 1; k <= 50; ++k) left.Note(50 + 10 * k, 1050, 50 + k);  // ten times as fast
  EXPECT_LT(*left.Seconds(), 100);
  TimeLeft limited;
  limited.Note(0, 1, 10, 30);
  EXPECT_DOUBLE_EQ(*limited.Seconds(), 30);
  limited.Note(0, 1, 25, 30);
  EXPECT_DOUBLE_EQ(*limited.Seconds(), 15);
  limited.Note(0, 2, 50, 30);  // other work
  EXPECT_DOUBLE_EQ(*limited.Seconds(), 30);
}

TEST(TimeLeftTest, WhatWasThereBeforeIsNoSpeed) {
  TimeLeft left;
  left.Note(900, 1000, 0);
  left.Note(902, 1000, 2);
  EXPECT_NEAR(*left.Seconds(), 98, 5);
}

TEST(TimeLeftTextTest, IsCoarse) {
  EXPECT_EQ(TimeLeftText(3), "a few seconds left");
  EXPECT_EQ(TimeLeftText(23), "about 25 s left");
  EXPECT_EQ(TimeLeftText(170), "about 3 min left");
  EXPECT_EQ(TimeLeftText(7900), "about 2 h 10 min left");
}

}  // namespace
}  // namespace partita

#include "runtime/launch/verdict_line.h"

#include <sys/stat.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

TEST(VerdictLineTest, WhatIsToldIsReceivedOnce) {
  auto line = VerdictLine::Open();
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ((*line)->Receive(), std::nullopt);
  EXPECT_TRUE(VerdictLine::Tell((*line)->path(), "rank 1 has ended"));
  EXPECT_TRUE(VerdictLine::Tell((*line)->path(), ""));
  EXPECT_THAT((*line)->Receive(), testing::Optional(std::string("rank 1 has ended")));
  EXPECT_THAT((*line)->Receive(), testing::Optional(std::string()));
  EXPECT_EQ((*line)->Receive(), std::nullopt);
}

TEST(VerdictLineTest, LongTextsAreCut) {
  auto line = VerdictLine::Open();
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_TRUE(VerdictLine::Tell((*line)->path(), std::string(100'000, 'x')));
  EXPECT_THAT((*line)->Receive(), testing::Optional(std::string(VerdictLine::kLongest, 'x')));
}

TEST(VerdictLineTest, NobodyElseMayUseItAndNothingIsLeft) {
  std::string path;
  {
    auto line = VerdictLine::Open();
    ASSERT_TRUE(line.ok()) << line.status();
    path = (*line)->path();
    struct stat folder{};
    ASSERT_EQ(stat(std::filesystem::path(path).parent_path().c_str(), &folder), 0);
    EXPECT_EQ(folder.st_mode & 0777, 0700u);
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(path).parent_path()));
  EXPECT_FALSE(VerdictLine::Tell(path, "too late"));
  EXPECT_FALSE(VerdictLine::Tell("", "nowhere"));
  EXPECT_FALSE(VerdictLine::Tell(std::string(200, 'x'), "nowhere"));
}

}  // namespace
}  // namespace partita

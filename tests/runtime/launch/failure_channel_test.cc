#include "runtime/launch/failure_channel.h"

#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

// Tells while the line is looked at, as a rank does while its launch looks.
bool Report(FailureChannel& line, const RunKey& key, const std::string& text,
            std::optional<std::string>& received) {
  const std::string name = line.name();
  auto told =
      std::async(std::launch::async, [&] { return FailureChannel::Report(name, key, text); });
  while (told.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (auto text_here = line.Receive(10)) received = std::move(text_here);
  }
  if (auto text_here = line.Receive(10)) received = std::move(text_here);
  return told.get();
}

TEST(FailureChannelTest, WhatIsToldIsReceivedOnce) {
  const RunKey key = RunKey::New();
  auto line = FailureChannel::Open(key);
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ((*line)->Receive(), std::nullopt);
  for (const std::string text : {"rank 1 has ended", ""}) {
    std::optional<std::string> received;
    EXPECT_TRUE(Report(**line, key, text, received));
    EXPECT_EQ(received, text);
    EXPECT_EQ((*line)->Receive(), std::nullopt);
  }
}

TEST(FailureChannelTest, LongTextsAreCut) {
  const RunKey key = RunKey::New();
  auto line = FailureChannel::Open(key);
  ASSERT_TRUE(line.ok()) << line.status();
  std::optional<std::string> received;
  ASSERT_TRUE(Report(**line, key, std::string(100'000, 'x'), received));
  EXPECT_EQ(received, std::string(FailureChannel::kLongest, 'x'));
}

TEST(FailureChannelTest, WhoHasAnotherKeyTellsNothing) {
  auto line = FailureChannel::Open(RunKey::New());
  ASSERT_TRUE(line.ok()) << line.status();
  std::optional<std::string> received;
  EXPECT_FALSE(Report(**line, RunKey::New(), "rank 1 has ended", received));
  EXPECT_EQ(received, std::nullopt);
}

TEST(FailureChannelTest, NoFileIsMadeAndNothingIsLeft) {
  const RunKey key = RunKey::New();
  std::string name;
  {
    auto line = FailureChannel::Open(key);
    ASSERT_TRUE(line.ok()) << line.status();
    name = (*line)->name();
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::temp_directory_path())) {
      EXPECT_FALSE(absl::StrContains(entry.path().string(), name));
    }
  }
  EXPECT_FALSE(FailureChannel::Report(name, key, "too late"));
  EXPECT_FALSE(FailureChannel::Report("", key, "nowhere"));
  EXPECT_FALSE(FailureChannel::Report(std::string(200, 'x'), key, "nowhere"));
}

}  // namespace
}  // namespace partita

#include "graph/task/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita {
namespace {

using testing::HasSubstr;

Timeline Example() {
  Timeline timeline{.title = "predicted", .device_names = {"cpu0", "gpu \"1\"\n"}};
  timeline.entries.push_back({{false, 3, 0, TaskKey::Phase::kCompute, 1, 0},
                              "conv1 part 1",
                              DeviceId(0),
                              Lane::kCompute,
                              Nanos(0),
                              Nanos(1234567)});
  timeline.entries.push_back({{true, 7, 2, TaskKey::Phase::kSend, 0, 1},
                              "all_reduce d:conv1.weight (ring, 2 devices)",
                              DeviceId(1),
                              Lane::kCommunication,
                              Nanos(1234567),
                              Nanos((int64_t{1} << 52) + 1)});
  return timeline;
}

TEST(TimelineTest, JsonKeepsEveryEntryToTheNanosecond) {
  const Timeline timeline = Example();
  const auto read = TimelineFromJson(TimelineToJson(timeline));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, timeline);
  EXPECT_EQ(LengthOf(*read), Nanos((int64_t{1} << 52) + 1));
}

TEST(TimelineTest, EmptyTimelineIsValidJson) {
  const auto read = TimelineFromJson(TimelineToJson({}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Timeline());
}

TEST(TimelineTest, NamesThatAreNoUtf8StillGiveValidJson) {
  Timeline timeline;
  timeline.device_names = {"bad \xff name"};
  EXPECT_TRUE(TimelineFromJson(TimelineToJson(timeline)).ok());
}

TEST(TimelineTest, BadJsonIsAnErrorThatSaysWhere) {
  EXPECT_EQ(TimelineFromJson("{").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TimelineFromJson("[]").status().code(), absl::StatusCode::kInvalidArgument);
  const std::string good = TimelineToJson(Example());
  const std::pair<std::string, std::string> changes[] = {
      {"\"tid\":1,\"ts\"", "\"tid\":9,\"ts\""},
      {"\"dur\":1234.567", "\"dur\":-1"},
      {"\"key\":[0,3,0,0,1,0]", "\"key\":[0,3,0,99,1,0]"}};
  for (const auto& [from, to] : changes) {
    std::string bad = good;
    const size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    bad.replace(at, from.size(), to);
    const auto read = TimelineFromJson(bad);
    ASSERT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << to;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("trace event"));
  }
}

TEST(TimelineTest, TruncatedJsonIsAnError) {
  const std::string good = TimelineToJson(Example());
  for (size_t n = 0; n + 2 < good.size(); ++n) {
    EXPECT_FALSE(TimelineFromJson(absl::string_view(good).substr(0, n)).ok());
  }
}

}  // namespace
}  // namespace partita

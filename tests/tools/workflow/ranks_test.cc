#include "tools/workflow/ranks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

using ::testing::HasSubstr;
using Hardware = std::vector<std::pair<std::string, std::string>>;

TEST(CompareHardwareTest, EachClassIsOnHardwareOfItsOwn) {
  EXPECT_EQ(CompareHardware({}), absl::OkStatus());
  EXPECT_EQ(CompareHardware(Hardware{{"gpu", "H200"}, {"cpu", "Xeon"}, {"gpu", "H200"}}),
            absl::OkStatus());
}

TEST(CompareHardwareTest, ARankOnOtherHardwareIsNamed) {
  const absl::Status status =
      CompareHardware(Hardware{{"cpu", "Xeon"}, {"gpu", "H200"}, {"cpu", "Xeon"}, {"gpu", "A100"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("rank 3 runs a device of class 'gpu' on A100, rank 1"));
  EXPECT_THAT(status.message(), HasSubstr("H200"));
}

// In a library or on its device a rank waits for others where nobody sees it: it does not hang.
TEST(StateOfTest, WhoMayMeetOthersInAStepWaits) {
  Executor::Progress progress{.in_step = true, .completed = 7};
  EXPECT_EQ(StateOf(progress, false), RankState::kWorking);
  EXPECT_EQ(StateOf(progress, true), RankState::kWaiting);
  progress.meets_peers = true;
  EXPECT_EQ(StateOf(progress, false), RankState::kWaiting);
  progress.in_step = false;
  EXPECT_EQ(StateOf(progress, true), RankState::kPreparing);
}

}  // namespace
}  // namespace partita

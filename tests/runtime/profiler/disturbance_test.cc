// What others do on the cores while something is measured.
#include "runtime/profiler/disturbance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kStat[] =
    "cpu  9 9 9 9 9 9 9 9 0 0\n"
    "cpu0 100 10 20 1000 5 1 2 30 0 0\n"
    "cpu1 200 0 0 2000 0 0 0 0 0 0\n"
    "cpu10 1 1 1 1 1 1 1 1 0 0\n"
    "intr 5 6 7\n";

TEST(CoreTimesTest, AreTheSumsOfTheirLines) {
  const std::vector<int> first = {0}, both = {0, 1}, last = {10};
  EXPECT_EQ(CoreTimesIn(kStat, first), (CoreTimes{133, 30, 1168}));
  EXPECT_EQ(CoreTimesIn(kStat, both), (CoreTimes{333, 30, 3368}));
  EXPECT_EQ(CoreTimesIn(kStat, last), (CoreTimes{5, 1, 8}));
}

TEST(CoreTimesTest, AreUnknownWhereTheKernelDoesNotTell) {
  const std::vector<int> none = {}, absent = {0, 2}, zero = {0};
  EXPECT_EQ(CoreTimesIn(kStat, none), std::nullopt);
  EXPECT_EQ(CoreTimesIn(kStat, absent), std::nullopt);
  EXPECT_EQ(CoreTimesIn("", zero), std::nullopt);
  EXPECT_EQ(CoreTimesIn("cpu0 0 0 0 0 0 0 0 0\n", zero), std::nullopt);
  EXPECT_EQ(CoreTimesIn("cpu0 1 2 3\n", zero), std::nullopt);
  EXPECT_EQ(CoreTimesIn("cpu0 1 2 x 4 5 6 7 8\n", zero), std::nullopt);
}

// Two cores for ten seconds of 100 ticks each.
Disturbance After(int64_t computed, int64_t stolen, double own) {
  return DisturbanceBetween({1000, 50, 90000}, {1000 + computed, 50 + stolen, 92000}, 2, own, 100);
}

TEST(DisturbanceTest, IsWhatOthersComputedAndTook) {
  EXPECT_EQ(After(1500, 100, 12), (Disturbance{10, 3, 1, {}}));
  EXPECT_EQ(After(1500, 0, 16), (Disturbance{10, 0, 0, {}}));  // ticks are coarse
}

TEST(DisturbanceTest, WarnsFromAQuarterOfACoreOn) {
  EXPECT_THAT(WarningsOf(After(1500, 0, 12.6)), IsEmpty());
  EXPECT_THAT(WarningsOf(After(1500, 240, 12.6)), IsEmpty());
  EXPECT_THAT(WarningsOf(After(1500, 0, 12)),
              ElementsAre(AllOf(HasSubstr("other processes kept 0.3 of"), HasSubstr("taskset"))));
  EXPECT_THAT(WarningsOf(After(0, 500, 0)),
              ElementsAre(AllOf(HasSubstr("gave 0.5 of its cores"), HasSubstr("quieter time"))));
  EXPECT_THAT(WarningsOf({0.1, 0.1, 0.1, {}}), IsEmpty());  // too short to tell
  EXPECT_THAT(WarningsOf(Disturbance()), IsEmpty());
}

TEST(DisturbanceTest, StretchesAddUp) {
  Disturbance sum = After(1500, 0, 15);
  sum += {10, 10, 0, {7, 8}};
  sum += {0, 0, 0, {8}};
  EXPECT_EQ(sum, (Disturbance{20, 10, 0, {7, 8}}));
  EXPECT_THAT(WarningsOf(sum), ElementsAre(HasSubstr("kept 0.5 of"), HasSubstr("process 7, 8)")));
}

// A child that claims the core; it writes a byte when it has, and ends with the number of others
// that it has seen when it may.
struct Child {
  int ready[2], may_end[2];
  pid_t process;

  explicit Child(int core) {
    EXPECT_EQ(pipe(ready), 0);
    EXPECT_EQ(pipe(may_end), 0);
    process = fork();
    if (process != 0) return;
    char byte = 0;
    const int cores[] = {core};
    MeasuringClaim claim(cores);
    if (write(ready[1], &byte, 1) != 1 || read(may_end[0], &byte, 1) != 1) _exit(99);
    _exit(static_cast<int>(claim.Others().size()));
  }
  void AwaitClaim() {
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
  }
  int OthersSeen() {
    const char byte = 0;
    EXPECT_EQ(write(may_end[1], &byte, 1), 1);
    int status = 0;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    for (int end : {ready[0], ready[1], may_end[0], may_end[1]}) close(end);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

// No core has such a number: nobody else claims it.
int MadeUpCore() { return 1'000'000 + getpid() % 1'000'000; }

TEST(MeasuringClaimTest, TheSecondNoticesTheFirstAndTheFirstTheSecond) {
  const int cores[] = {MadeUpCore(), MadeUpCore() + 1};
  Child first(cores[1]);
  first.AwaitClaim();
  MeasuringClaim claim(cores);
  EXPECT_THAT(claim.Others(), ElementsAre(first.process));
  EXPECT_EQ(first.OthersSeen(), 1);
  Child second(cores[0]);
  second.AwaitClaim();
  EXPECT_THAT(claim.Others(), ElementsAre(first.process, second.process));
  EXPECT_EQ(second.OthersSeen(), 1);
}

TEST(MeasuringClaimTest, NobodyIsNoticedOnOtherCoresOrAfterwards) {
  const int cores[] = {MadeUpCore()}, others[] = {MadeUpCore() + 2};
  Child child(cores[0]);
  child.AwaitClaim();
  {
    MeasuringClaim claim(others);
    EXPECT_THAT(claim.Others(), IsEmpty());
  }
  EXPECT_EQ(child.OthersSeen(), 0);
  MeasuringClaim claim(cores);
  MeasuringClaim own(cores);  // of the same process
  EXPECT_THAT(claim.Others(), IsEmpty());
  EXPECT_THAT(own.Others(), IsEmpty());
}

TEST(DisturbanceWatchTest, SeesNothingOfItsOwnWork) {
  DisturbanceWatch watch;
  volatile double sum = 0;
  for (int k = 0; k < 20'000'000; ++k) sum = sum + k;
  const Disturbance found = watch.SoFar();
  EXPECT_GE(found.seconds, 0);
  EXPECT_GE(found.others, 0);
}

}  // namespace
}  // namespace partita

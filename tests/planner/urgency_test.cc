#include "planner/simulator/urgency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/simulator/priorities.h"
#include "planner/simulator/simulator.h"

namespace partita {
namespace {

using ::testing::IsEmpty;

constexpr int32_t kSubjects = 10'000;

TEST(UrgencyTest, WithoutDrawsThereAreNone) { EXPECT_THAT(UrgenciesOf({}, kSubjects), IsEmpty()); }

TEST(UrgencyTest, ADrawChangesOneSubjectInTwenty) {
  const std::vector<int32_t> urgencies = UrgenciesOf(std::vector<uint32_t>{7}, kSubjects);
  ASSERT_EQ(urgencies.size(), kSubjects);
  const auto even = std::count(urgencies.begin(), urgencies.end(), kEvenUrgency);
  EXPECT_GT(even, 0.94 * kSubjects);
  EXPECT_LT(even, 0.96 * kSubjects);
  EXPECT_EQ(*std::min_element(urgencies.begin(), urgencies.end()), 0);
  EXPECT_EQ(*std::max_element(urgencies.begin(), urgencies.end()), kMostUrgency);
}

TEST(UrgencyTest, DrawsComeOneAfterAnother) {
  const std::vector<int32_t> first = UrgenciesOf(std::vector<uint32_t>{1}, kSubjects);
  const std::vector<int32_t> second = UrgenciesOf(std::vector<uint32_t>{2}, kSubjects);
  const std::vector<int32_t> both = UrgenciesOf(std::vector<uint32_t>{1, 2}, kSubjects);
  EXPECT_NE(first, second);
  int of_second = 0;
  for (size_t k = 0; k < both.size(); ++k) {
    if (second[k] == kEvenUrgency) continue;
    ++of_second;
    EXPECT_EQ(both[k], second[k]);
  }
  EXPECT_GT(of_second, 0);
  for (size_t k = 0; k < both.size(); ++k) {
    if (both[k] == second[k]) continue;
    EXPECT_EQ(both[k], first[k]);
  }
}

// Tasks of two subjects, alike and ready at the same time, that want one resource.
FlatTasks TwoThatCompete() {
  FlatTasks tasks;
  tasks.resources = 1;
  tasks.successor_begin = {0, 0, 0};
  tasks.resource_begin = {0, 1, 2};
  tasks.resource_of = {0, 0};
  tasks.predecessor_count = {0, 0};
  tasks.by_key = {0, 1};
  tasks.subject_of = {0, 1};
  return tasks;
}

TEST(UrgencyTest, TheMoreUrgentGoesFirst) {
  const FlatTasks tasks = TwoThatCompete();
  const std::vector<Nanos> durations{Nanos(100), Nanos(100)};
  for (const Priority& rule : Priorities()) {
    for (const int32_t second :
         {0, kEvenUrgency - 1, kEvenUrgency, kEvenUrgency + 1, kMostUrgency}) {
      const std::vector<int32_t> urgencies{kEvenUrgency, second};
      const Schedule schedule = Simulate(tasks, durations, rule, urgencies);
      const size_t first = second > kEvenUrgency ? 1 : 0;
      EXPECT_EQ(schedule.start[first], Nanos(0)) << rule.name << ", " << second;
      EXPECT_EQ(schedule.start[1 - first], Nanos(100)) << rule.name << ", " << second;
    }
  }
}

TEST(UrgencyTest, EvenOnesAreAsNone) {
  const FlatTasks tasks = TwoThatCompete();
  const std::vector<Nanos> durations{Nanos(1), Nanos((int64_t{1} << 61) - 1)};
  const std::vector<int32_t> even(2, kEvenUrgency), most(2, kMostUrgency);
  for (const Priority& rule : Priorities()) {
    const std::vector<int64_t> none = rule.of(tasks, durations, {});
    EXPECT_EQ(rule.of(tasks, durations, even), none) << rule.name;
    const std::vector<int64_t> twice = rule.of(tasks, durations, most);
    for (size_t t = 0; t < none.size(); ++t) EXPECT_EQ(twice[t], 2 * none[t]) << rule.name;
  }
}

}  // namespace
}  // namespace partita

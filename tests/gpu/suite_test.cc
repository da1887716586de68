#include "tests/gpu/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/gpu/kernel_share.h"

namespace partita {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

absl::StatusOr<SectionFindings> Pass(const SuiteOptions&) {
  return SectionFindings{{{"runs", 3}}, {}};
}
absl::StatusOr<SectionFindings> Differ(const SuiteOptions&) {
  return SectionFindings{Json::object(), {"one differs", "another differs"}};
}
absl::StatusOr<SectionFindings> Break(const SuiteOptions&) {
  return absl::InternalError("the device is gone");
}
absl::StatusOr<SectionFindings> Lack(const SuiteOptions&) {
  return absl::UnavailableError("no GPU here");
}

absl::StatusOr<SectionFindings> Crash(const SuiteOptions&) { std::abort(); }
absl::StatusOr<SectionFindings> Hang(const SuiteOptions&) {
  while (true) pause();
}
// What both have found first.
const SectionFindings kHalf = {{{"runs", 2}}, {"one \xff differs"}};
absl::StatusOr<SectionFindings> CrashHalfway(const SuiteOptions& options) {
  options.so_far({{{"runs", 1}}, {}});
  options.so_far(kHalf);
  std::abort();
}
absl::StatusOr<SectionFindings> BreakHalfway(const SuiteOptions& options) {
  options.so_far(kHalf);
  return absl::InternalError("the device is gone");
}

constexpr SuiteSection kAll[] = {{"pass", Pass, "passes"},
                                 {"differ", Differ, "finds differences"},
                                 {"break", Break, "ends with an error"},
                                 {"lack", Lack, "cannot run"}};

Json Report(const std::vector<std::string>& names) {
  SuiteOptions options;
  options.sections = names;
  const auto report = RunSuite(options, kAll, [](const Json&) {});
  EXPECT_TRUE(report.ok()) << report.status();
  return report.value_or(Json::object());
}

TEST(SuiteTest, EverySectionIsReportedWithItsState) {
  const Json report = Report({});
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_EQ(report["backend"], "cuda");
  EXPECT_EQ(report["passed"], 1);
  EXPECT_EQ(report["failed"], 2);
  EXPECT_EQ(report["skipped"], 1);
  ASSERT_EQ(report["sections"].size(), 4u);
  const Json& sections = report["sections"];
  EXPECT_EQ(sections[0]["state"], "passed");
  EXPECT_EQ(sections[0]["details"]["runs"], 3);
  EXPECT_EQ(sections[1]["state"], "failed");
  EXPECT_EQ(sections[1]["failures"].size(), 2u);
  EXPECT_EQ(sections[2]["state"], "failed");
  EXPECT_THAT(sections[2]["failures"][0].get<std::string>(), HasSubstr("the device is gone"));
  EXPECT_EQ(sections[3]["state"], "skipped");
  EXPECT_EQ(sections[3]["reason"], "no GPU here");
  for (const Json& section : sections) EXPECT_GE(section["seconds"].get<double>(), 0);
}

TEST(SuiteTest, WhatEndsOneSectionLeavesTheOthersAlone) {
  constexpr SuiteSection kSections[] = {{"crash", Crash, ""}, {"pass", Pass, ""}};
  std::vector<size_t> reported;
  const auto report = RunSuite(
      {}, kSections, [&](const Json& so_far) { reported.push_back(so_far["sections"].size()); });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(reported, ::testing::ElementsAre(1, 2));
  const Json& sections = (*report)["sections"];
  EXPECT_THAT(sections[0]["failures"][0].get<std::string>(), HasSubstr("signal 6"));
  EXPECT_EQ(sections[1]["state"], "passed");
}

TEST(SuiteTest, ASectionThatHangsIsGivenUp) {
  constexpr SuiteSection kSections[] = {{"hang", Hang, ""}};
  SuiteOptions options;
  options.section_seconds = 0.2;
  const auto report = RunSuite(options, kSections, [](const Json&) {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT((*report)["sections"][0]["failures"][0].get<std::string>(),
              HasSubstr("not done after 0.2"));
  EXPECT_EQ(ExitCodeOfSuite(*report), 1);
}

TEST(SuiteTest, WhatWasFoundBeforeASectionEndedIsReported) {
  constexpr SuiteSection kSections[] = {{"crash", CrashHalfway, ""}, {"break", BreakHalfway, ""}};
  const auto report = RunSuite({}, kSections, [](const Json&) {});
  ASSERT_TRUE(report.ok()) << report.status();
  const char* const reasons[] = {"signal 6", "the device is gone"};
  for (size_t k = 0; k < 2; ++k) {
    const Json& section = (*report)["sections"][k];
    EXPECT_EQ(section["state"], "failed");
    EXPECT_EQ(section["details"]["runs"], 2);
    ASSERT_EQ(section["failures"].size(), 2u);
    EXPECT_THAT(section["failures"][0].get<std::string>(), HasSubstr("differs"));
    EXPECT_THAT(section["failures"][1].get<std::string>(), HasSubstr(reasons[k]));
  }
}

TEST(SuiteTest, SectionsBehindTheLimitOfAllAreSkipped) {
  constexpr SuiteSection kSections[] = {{"hang", Hang, ""}, {"pass", Pass, ""}};
  SuiteOptions options;
  options.seconds = 0.2;
  const auto report = RunSuite(options, kSections, [](const Json&) {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ((*report)["sections"][0]["state"], "failed");
  EXPECT_EQ((*report)["sections"][1]["state"], "skipped");
  EXPECT_THAT((*report)["sections"][1]["reason"].get<std::string>(), HasSubstr("0.2 seconds"));
}

TEST(SuiteTest, ExitCodesTellFailedFromSkipped) {
  EXPECT_EQ(ExitCodeOfSuite(Report({"pass"})), 0);
  EXPECT_EQ(ExitCodeOfSuite(Report({"pass", "lack"})), 0);
  EXPECT_EQ(ExitCodeOfSuite(Report({"pass", "lack", "differ"})), 1);
  EXPECT_EQ(ExitCodeOfSuite(Report({"lack", "break"})), 1);
  EXPECT_EQ(ExitCodeOfSuite(Report({"lack"})), 77);
}

TEST(SuiteTest, AnUnknownSectionIsNamedWithThoseThatAreKnown) {
  SuiteOptions options;
  options.sections = {"pass", "speed"};
  const auto report = RunSuite(options, kAll, [](const Json&) { FAIL() << "a section ran"; });
  EXPECT_EQ(report.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(report.status().message()),
              HasSubstr("'speed'; known are: pass, differ, break, lack"));
}

MeasuredInstruction Work(int64_t start, int64_t end, bool communication = false) {
  return {TaskId(0), DeviceId(0), communication, start, end};
}

TEST(KernelShareTest, GapsAreWhatNeitherStreamFills) {
  // 100..300 and 250..400 overlap; nothing from 400 to 450 and from 500 to 600.
  const std::vector<MeasuredInstruction> timeline = {Work(600, 800), Work(100, 300),
                                                     Work(250, 400, true), Work(450, 500)};
  const KernelShare share = KernelShareOf(timeline, 1000);
  EXPECT_THAT(share.busy, DoubleNear(0.55, 1e-12));
  EXPECT_THAT(share.gaps, DoubleNear(0.15, 1e-12));
  EXPECT_EQ(share.longest_gap_ns, 100);
  EXPECT_THAT(GapsWithoutRecording(share, 1000), DoubleNear(0.15, 1e-12));
  EXPECT_THAT(GapsWithoutRecording(share, 900), DoubleNear(50.0 / 900, 1e-12));
  EXPECT_EQ(GapsWithoutRecording(share, 800), 0);
  EXPECT_EQ(share.pieces, 4);
}

TEST(KernelShareTest, WorkWithinOtherWorkAddsNothing) {
  const std::vector<MeasuredInstruction> timeline = {Work(0, 100), Work(20, 30), Work(40, 40)};
  const KernelShare share = KernelShareOf(timeline, 100);
  EXPECT_THAT(share.busy, DoubleNear(1, 1e-12));
  EXPECT_EQ(share.gaps, 0);
  EXPECT_EQ(KernelShareOf({}, 100).pieces, 0);
}

}  // namespace
}  // namespace partita

#include "tests/bench/best_known.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "cost_model/machines.h"
#include "graph/zoo/models.h"
#include "tests/bench/limited_process.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kCommitted[] = PARTITA_SOURCE_DIR "/tests/bench/best_known.txt";

TEST(BestKnownTest, TheCommittedFileNamesModelsAndMachines) {
  const auto known = BestKnown::Read(kCommitted);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_GE(known->steps().size(), 30u);
  for (const auto& [of, found] : known->steps()) {
    EXPECT_TRUE(FindMachine(of.machine, of.devices).ok()) << of.machine << ' ' << of.devices;
    EXPECT_TRUE(MakeZooModel(of.model, of.batch).ok()) << of.model;
    EXPECT_GT(found.base, Nanos(0));
    EXPECT_FALSE(found.found_by.empty());
  }
}

TEST(BestKnownTest, KeepsWhatIsBetterUnderTheSamePrices) {
  BestKnown known;
  const BestKnownCase eight{"machine", "model", 8, 64}, four{"machine", "model", 4, 64};
  EXPECT_FALSE(known.StepOf(eight, Nanos(100)).has_value());
  EXPECT_TRUE(known.Add(eight, {Nanos(50), Nanos(100), "auto"}));
  EXPECT_FALSE(known.Add(eight, {Nanos(50), Nanos(100), "mcmc"}));
  EXPECT_TRUE(known.Add(eight, {Nanos(40), Nanos(100), "mcmc"}));
  EXPECT_EQ(known.StepOf(eight, Nanos(100)), Nanos(40));
  // Other prices: it says nothing, and gives way.
  EXPECT_FALSE(known.StepOf(eight, Nanos(90)).has_value());
  EXPECT_TRUE(known.Add(eight, {Nanos(45), Nanos(90), "auto"}));
  EXPECT_EQ(known.StepOf(eight, Nanos(90)), Nanos(45));
  // A plan for fewer devices is one for more, not the other way round.
  EXPECT_TRUE(known.Add(four, {Nanos(30), Nanos(70), "auto"}));
  EXPECT_EQ(known.StepOf(eight, Nanos(90)), Nanos(30));
  EXPECT_EQ(known.StepOf(four, Nanos(70)), Nanos(30));
  const BestKnownCase other{"machine", "model", 4, 32};
  EXPECT_FALSE(known.StepOf(other, Nanos(70)).has_value());
}

TEST(BestKnownTest, FilesKeepEverything) {
  BestKnown known;
  known.Add({"a-4x4", "model", 16, 64}, {Nanos(50), Nanos(100), "auto, 10 evaluations, seed 3"});
  known.Add({"a-4x4", "other", 4, 256}, {Nanos(5), Nanos(10), "mcmc"});
  const std::string path = testing::TempDir() + "/best_known_test.txt";
  ASSERT_TRUE(known.Write(path).ok());
  const auto read = BestKnown::Read(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->steps().size(), 2u);
  const auto& [of, found] = *read->steps().begin();
  EXPECT_EQ(of, (BestKnownCase{"a-4x4", "model", 16, 64}));
  EXPECT_EQ(found.step, Nanos(50));
  EXPECT_EQ(found.base, Nanos(100));
  EXPECT_EQ(found.found_by, "auto, 10 evaluations, seed 3");
  std::ofstream(path, std::ios::app) << "a-4x4 model sixteen 64 1 2 auto\n";
  EXPECT_THAT(BestKnown::Read(path).status().message(), HasSubstr("wanted machine model devices"));
}

TEST(LimitedProcessTest, LinesComeAndTheEndIsTold) {
  std::vector<std::string> lines;
  const auto take = [&](const std::string& line) { lines.push_back(line); };
  EXPECT_EQ(RunLimited(
                {.seconds = 60},
                [](const auto& send) {
                  send("one");
                  send("two");
                },
                take)
                .kind,
            ProcessEnd::Kind::kDone);
  EXPECT_THAT(lines, ElementsAre("one", "two"));
  EXPECT_EQ(RunLimited(
                {.seconds = 0.2},
                [](const auto& send) {
                  send("three");
                  for (;;) pause();
                },
                take)
                .kind,
            ProcessEnd::Kind::kOutOfTime);
  EXPECT_EQ(RunLimited({}, [](const auto&) { _exit(7); }, take).kind, ProcessEnd::Kind::kFailed);
  EXPECT_THAT(lines, ElementsAre("one", "two", "three"));
}

TEST(LimitedProcessTest, MemoryEndsAProcess) {
#ifdef PARTITA_SANITIZED
  GTEST_SKIP() << "sanitizers reserve address space of their own";
#endif
  const ProcessEnd end = RunLimited(
      {.seconds = 60, .bytes = int64_t{1} << 30},
      [](const auto&) {
        std::vector<std::string> all;
        for (;;) all.emplace_back(size_t{1} << 24, 'x');
      },
      [](const std::string&) {});
  EXPECT_EQ(end.kind, ProcessEnd::Kind::kOutOfMemory);
  EXPECT_GT(end.peak_bytes, int64_t{1} << 28);
  EXPECT_LE(end.peak_bytes, int64_t{1} << 30);
}

}  // namespace
}  // namespace partita

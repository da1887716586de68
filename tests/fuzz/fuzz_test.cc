// What is read from outside, damaged: every input is read or refused with a message, without a
// crash, in little time and memory. With sanitizers a tenth of the inputs; the long run takes a
// hundred times as many.

#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/trials.h"
#include "tests/testing/cases.h"

namespace partita {
namespace {

constexpr char kCorpus[] = PARTITA_SOURCE_DIR "/tests/fuzz/corpus";

class FuzzTest : public testing::TestWithParam<std::string> {};

void ReadDamaged(const std::string& name, int count, uint64_t seed) {
  const FuzzTarget& target = *FindFuzzTarget(name);
  Trials trials(target);
  DamagedInputs inputs(target, kCorpus, seed);
  const auto check = [&](const std::string& input) {
    const std::string fault = trials.Try(input);
    EXPECT_EQ(fault, "") << "input: " << trials.Save();
    return fault.empty();
  };
  EXPECT_TRUE(check(inputs.kept().front()) && trials.last_was_accepted());
  for (const std::string& input : inputs.kept()) {
    if (!check(input)) return;
  }
  for (int k = 0; k < count; ++k) {
    if (!check(inputs.Next())) return;
    if (trials.last_was_accepted()) inputs.Accepted();
  }
  std::cout << trials.Summary() << "\n";
  // Both happen often enough to mean something.
  EXPECT_GT(trials.refused(), trials.accepted() / 50);
  EXPECT_GT(trials.accepted(), trials.refused() / 1000);
}

TEST_P(FuzzTest, DamagedInputsAreReadOrRefused) {
  const int inputs = FindFuzzTarget(GetParam())->inputs;
  ReadDamaged(GetParam(), kSanitized ? inputs / 10 : inputs, 1);
}

TEST_P(FuzzTest, LongRun) { ReadDamaged(GetParam(), FindFuzzTarget(GetParam())->inputs * 100, 2); }

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const FuzzTarget& target : FuzzTargets()) names.push_back(target.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzTest, testing::ValuesIn(Names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace partita

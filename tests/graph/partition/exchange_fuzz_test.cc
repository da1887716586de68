#include <gtest/gtest.h>

#include <iostream>

#include "tests/graph/partition/random_exchange.h"
#include "tests/testing/cases.h"

namespace partita {
namespace {

// The case of a seed; `nodes` is what it points to.
ExchangeCase CaseOf(uint64_t seed, std::mt19937_64& random, std::vector<int32_t>& nodes) {
  ExchangeCase c = RandomExchange(random);
  if (seed % 3 == 0) {
    for (int d = 0; d < c.devices; ++d) nodes.push_back(d / 2);
  }
  c.options.exchange.node_of_device = nodes;
  return c;
}

std::map<std::string, int> CheckSeeds(uint64_t first, uint64_t last) {
  std::map<std::string, int> patterns;
  for (uint64_t seed = first; seed < last; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<int32_t> nodes;
    const ExchangeCase c = CaseOf(seed, random, nodes);
    const auto outcome = CheckExchange(c, random);
    EXPECT_TRUE(outcome.ok()) << "seed " << seed << ": " << outcome.status() << "\n" << ToString(c);
    if (!outcome.ok()) break;
    for (const auto& [pattern, count] : outcome->patterns) patterns[pattern] += count;
  }
  for (const auto& [pattern, count] : patterns) std::cout << pattern << " " << count << "\n";
  return patterns;
}

TEST(ExchangeFuzzTest, EveryDemandIsTheSumOverTheTermsThatCoverIt) {
  const std::map<std::string, int> patterns = CheckSeeds(0, CasesOf(6000));
  for (const char* pattern : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                              "broadcast", "reduce", "transfers"}) {
    EXPECT_GE(patterns.contains(pattern) ? patterns.at(pattern) : 0, 20) << pattern;
  }
}

TEST(ExchangeFuzzTest, FloatCopiesOfAnElementAreEqualBitForBit) {
  constexpr uint64_t kSeeds = CasesOf(20000);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<int32_t> nodes;
    const ExchangeCase c = CaseOf(seed, random, nodes);
    const absl::Status agree = CheckFloatCopiesAgree(c, random);
    ASSERT_EQ(agree, absl::OkStatus()) << "seed " << seed << "\n" << ToString(c);
  }
}

TEST(ExchangeFuzzTest, LongRunOfManyMoreSeeds) { CheckSeeds(1000000, 1200000); }

}  // namespace
}  // namespace partita

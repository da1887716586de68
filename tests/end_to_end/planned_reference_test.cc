// Plans equal PyTorch: strategies of experts and of searches train the small models of the zoo on
// four devices of the cpu backend, from the same weights on the same batches, within the tolerance
// that the reference states.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "gtest/gtest.h"
#include "planner/expert/expert_strategies.h"
#include "planner/search/search_algorithm.h"
#include "runtime/train/reference/reference_run.h"
#include "tests/end_to_end/reference_example.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr int kDevices = 4;
// Searched and random plans of each model, in the long run.
constexpr size_t kSearched = 100, kRandom = 100;

class PlannedReferenceTest : public ::testing::TestWithParam<const char*> {
 protected:
  PlannedReferenceTest()
      : machine_(std::make_shared<const Machine>(Ok(FindMachine("p100-4x4", kDevices)))),
        costs_(MakeSyntheticCostModel(machine_)),
        experts_(ExpertStarts(example_.graph, machine_->topology)) {}

  void ExpectEqual(const Strategy& strategy, const std::string& what) {
    const char* backend = MakeBackend("cpu").ok() ? "cpu" : "reference";
    const auto got = example_.Train(strategy, {.devices = kDevices}, backend);
    ASSERT_TRUE(got.ok()) << what << ": " << got.status();
    const ReferenceComparison comparison = CompareWithReference(example_.reference, *got);
    EXPECT_TRUE(comparison.equal) << what << ": " << comparison.first_difference;
    EXPECT_EQ(comparison.tensors, static_cast<int64_t>(example_.reference.expected.size()));
    worst_share_ = std::max(worst_share_, comparison.worst_share);
    ++plans_;
  }

  // Adds different strategies that a search from random starts finds feasible.
  void AddSearched(uint64_t seed, std::vector<NamedStrategy>& searched) const {
    const Evaluator evaluator(example_.graph, machine_->topology, *costs_);
    const SearchProblem problem{evaluator, SearchSpace(example_.graph, kDevices), experts_};
    const SearchOptions options{.evaluations = 60, .seed = seed, .random_starts = 4, .threads = 1};
    const SearchResult result = Ok(SearchMcmc(problem, options));
    for (const FoundStrategy& one : result.by_origin) {
      const bool is_known = std::any_of(
          searched.begin(), searched.end(),
          [&](const NamedStrategy& other) { return other.strategy == one.found.strategy; });
      if (!is_known) searched.push_back(one.found);
    }
  }

  void Report(const char* what) const {
    std::printf("%s: %d %s plans, the worst at %.2f of its tolerance\n", GetParam(), plans_, what,
                worst_share_);
  }

  const ReferenceExample example_ =
      ReferenceExample::Load(std::string(PARTITA_TEST_DATA "/references/") + GetParam());
  const std::shared_ptr<const Machine> machine_;
  const std::unique_ptr<CostModel> costs_;
  const std::vector<NamedStrategy> experts_;
  double worst_share_ = 0;
  int plans_ = 0;
};

TEST_P(PlannedReferenceTest, ExpertsTrainAsPyTorchDoes) {
  ASSERT_GE(experts_.size(), 4u);
  for (const NamedStrategy& expert : experts_) ExpectEqual(expert.strategy, expert.name);
  Report("expert");
}

TEST_P(PlannedReferenceTest, ASearchedPlanTrainsAsPyTorchDoes) {
  std::vector<NamedStrategy> searched;
  AddSearched(1, searched);
  ASSERT_FALSE(searched.empty());
  ExpectEqual(searched[0].strategy, searched[0].name);
}

TEST_P(PlannedReferenceTest, LongRunOfSearchedAndRandomPlans) {
  std::vector<NamedStrategy> searched;
  for (uint64_t seed = 1000; searched.size() < kSearched; ++seed) AddSearched(seed, searched);
  for (const NamedStrategy& one : searched) ExpectEqual(one.strategy, "from " + one.name);
  std::mt19937_64 random(1000);
  for (size_t k = 0; k < kRandom; ++k) {
    ExpectEqual(RandomStrategy(example_.graph, kDevices, random), "random " + std::to_string(k));
  }
  Report("searched and random");
}

INSTANTIATE_TEST_SUITE_P(Zoo, PlannedReferenceTest,
                         ::testing::Values("alexnet_tiny", "bert_tiny", "gpt_tiny",
                                           "inception_v3_tiny", "nmt_tiny", "resnet101_tiny",
                                           "rnnlm_tiny", "rnntc_tiny", "vit_tiny"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace partita

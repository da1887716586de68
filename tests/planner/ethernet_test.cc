// What a search finds on fixed machines with the synthetic profile.

#include <gtest/gtest.h>

#include "graph/verify/plan_verifier.h"
#include "planner/space/moves.h"
#include "tests/planner/fixture.h"

namespace partita {
namespace {

// Four hosts on 1 Gb/s Ethernet, AlexNet, batch 256: the network decides.
class EthernetTest : public testing::Test {
 protected:
  Workplace at_{"alexnet", 256, "ethernet-4x1g", 4};
  const std::vector<OpId> layers_ = {at_.Op("classifier.1"), at_.Op("classifier.4"),
                                     at_.Op("classifier.6")};
};

TEST_F(EthernetTest, SearchIsNoWorseThanOneWeirdTrickAndTwiceAsFastAsDataParallelism) {
  const SearchResult found = Ok(SearchMcmc(at_.Problem(), {.evaluations = 2000, .seed = 1}));
  const Evaluation trick = at_.evaluator.Evaluate(at_.Expert("one_weird_trick"));
  const Evaluation data = at_.evaluator.Evaluate(at_.Expert("data_parallel"));
  const auto time = static_cast<double>(found.evaluation.time.value());
  EXPECT_LE(time, 1.001 * static_cast<double>(trick.time.value()));
  EXPECT_LE(time, 0.5 * static_cast<double>(data.time.value()));
  const Evaluation whole = at_.evaluator.Evaluate(found.best);
  for (Bytes bytes : whole.received) EXPECT_LE(bytes, Bytes(45'000'000));
  EXPECT_EQ(VerifyPlan(at_.graph, at_.PlanOf(found.best)), absl::OkStatus());
}

// The elementwise operators between two linear layers, split as the layer's result lies (copies
// where its value is summed from parts: then by sample).
ParallelConfig Following(const Workplace& at, OpId layer, const ParallelConfig& config, OpId op) {
  if (const auto copied = WithSameResultSplit(at.space, layer, config, op)) return *copied;
  return at.Expert("data_parallel").configs[op.index()];
}

TEST_F(EthernetTest, NoConfigurationOfTheLinearLayersBeatsTheSearch) {
  const SearchResult found = Ok(SearchMcmc(at_.Problem(), {.evaluations = 2000, .seed = 1}));
  // Every configuration of each of the three, all else by sample: nothing is left out.
  std::vector<std::vector<ParallelConfig>> choices;
  for (OpId layer : layers_) choices.push_back(at_.space.Configs(layer));
  const size_t n = choices[0].size();
  ASSERT_EQ(n, 25u);
  const std::vector<std::vector<OpId>> behind = {
      {at_.Op("classifier.2"), at_.Op("classifier.3")}, {at_.Op("classifier.5")}, {}};
  Strategy strategy = at_.Expert("data_parallel");
  int64_t cheaper = 0, tried = 0;
  for (size_t k = 0; k < n * n * n; ++k) {
    const size_t digits[] = {k / (n * n), k / n % n, k % n};
    for (size_t l = 0; l < 3; ++l) {
      ASSERT_EQ(choices[l].size(), n);
      const ParallelConfig& config = choices[l][digits[l]];
      strategy.configs[layers_[l].index()] = config;
      for (OpId op : behind[l]) {
        strategy.configs[op.index()] = Following(at_, layers_[l], config, op);
      }
    }
    const Evaluation evaluation = at_.evaluator.EvaluateBriefly(strategy, found.evaluation.time);
    ASSERT_NE(evaluation.verdict, Evaluation::Verdict::kInvalid) << evaluation.reason;
    cheaper += evaluation.feasible() && evaluation.time < found.evaluation.time;
    ++tried;
  }
  EXPECT_EQ(tried, 15625);
  EXPECT_EQ(cheaper, 0);
}

// But for weights of a few kilobytes, which idle devices update.
TEST(SlowEthernetTest, OneDeviceWinsWhereTheNetworkIsTooSlow) {
  const Workplace at("alexnet_s56", 16, "ethernet-4x100m", 4);
  const SearchResult found = Ok(SearchMcmc(at.Problem(), {.evaluations = 1000, .seed = 1}));
  const Nanos alone = at.evaluator.Evaluate(at.Expert("single_device")).time;
  EXPECT_LE(found.evaluation.time, alone);
  Strategy home = found.best;
  for (WeightPlacement& weight : home.weights) weight = {};
  EXPECT_GT(at.evaluator.Evaluate(home).time.value(), alone.value() * 999 / 1000);
  EXPECT_GT(found.evaluation.time.value(), alone.value() * 998 / 1000);
  const Evaluation whole = at.evaluator.Evaluate(found.best);
  for (Bytes bytes : whole.received) EXPECT_LE(bytes, Bytes(32 << 10));
  for (OpId anchor : at.graph.anchors()) {
    EXPECT_EQ(found.best.configs[anchor.index()].devices, std::vector<DeviceId>(1, DeviceId(0)));
  }
}

}  // namespace
}  // namespace partita

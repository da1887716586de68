// A step of many pods, seen from the first: equal to the nanosecond to the step of all devices.

#include "graph/parallel/pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "planner/space/search_space.h"
#include "tests/planner/fixture.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

using testing::HasSubstr;

// A model on all devices of a machine, and on the first of its pods.
struct PodsAtWork {
  PodsAtWork(const std::string& model, int64_t pod_batch, const std::string& name, Pods of)
      : pods(of),
        one(TrainingGraphOf(model, pod_batch)),
        all(TrainingGraphOf(model, pod_batch * of.count)),
        machine(std::make_shared<const Machine>(Ok(FindMachine(name, of.devices * of.count)))),
        costs(MakeDefaultCostModel(machine)),
        pod(Ok(machine->topology.TakeDevices(of.devices))),
        whole(all, machine->topology, *costs, WithoutDirect()),
        first(one, pod, *costs, OptionsOf(model, pod_batch)),
        bounded(one, pod, *costs, OptionsOf(model, pod_batch)),
        space(one, of.devices) {}

  // Values of small models go point to point otherwise, which is not known of more pods.
  static Evaluator::Options WithoutDirect() {
    Evaluator::Options options;
    options.choices.direct_bytes = 0;
    return options;
  }
  Evaluator::Options OptionsOf(const std::string& model, int64_t pod_batch) const {
    Evaluator::Options options = WithoutDirect();
    options.pods = std::make_shared<const PodSetting>(PodSetting{
        machine->topology, pods, TrainingGraphOf(model, pod_batch * PodView::BuiltOf(pods))});
    return options;
  }

  const Pods pods;
  const Graph one, all;
  const std::shared_ptr<const Machine> machine;
  const std::unique_ptr<CostModel> costs;
  const DeviceTopology pod;
  const Evaluator whole, first;
  const Evaluator bounded;  // as `first`; each strategy's first evaluation there has a cutoff
  const SearchSpace space;
};

struct PodCase {
  std::string model;
  int64_t pod_batch;
  std::string machine;
  Pods pods;
  // Whether no value goes through a device of the first pod that has no like in the others: sums of
  // weights that are read on other devices than they are made on.
  bool is_exact = true;
  // Whether pods share channels, so that few strategies are known.
  bool shares = false;
};

class PodsTest : public testing::TestWithParam<PodCase> {
 protected:
  // Whether the form of all exchanges is known.
  bool ExpectEqual(const PodsAtWork& at, const Strategy& strategy, bool in_buckets = true) {
    const Evaluation brief = at.first.EvaluateBriefly(strategy, kNoCutoff);
    if (brief.verdict == Evaluation::Verdict::kInvalid) {
      EXPECT_THAT(brief.reason, HasSubstr("not known"));
      return false;
    }
    const EvaluatedStep seen = Ok(at.first.EvaluateStep(strategy));
    const Strategy of_all = Ok(StrategyOfPods(at.one, at.all, strategy, at.pods));
    const EvaluatedStep whole = Ok(at.whole.EvaluateStep(of_all));
    // Weights that are kept in blocks are gathered through the first pod's devices.
    const bool is_exact =
        GetParam().is_exact &&
        std::all_of(strategy.weights.begin(), strategy.weights.end(),
                    [](const WeightPlacement& one) { return one == WeightPlacement(); });
    EXPECT_EQ(brief.time, seen.evaluation.time);
    // Bounds, by which what is slower is given up, are none above the time.
    EXPECT_EQ(at.bounded.EvaluateBriefly(strategy, brief.time).time, brief.time);
    EXPECT_THAT(brief.peak, testing::Pointwise(testing::Ge(), seen.evaluation.peak));
    if (in_buckets) ExpectEqualInBuckets(at, strategy, of_all, is_exact);
    if (is_exact) {
      EXPECT_EQ(brief.time, whole.evaluation.time);
    } else {
      ExpectNear(brief.time, whole.evaluation.time);
    }
    for (size_t d = 0; d < static_cast<size_t>(at.pods.devices); ++d) {
      const Evaluation &a = seen.evaluation, &b = whole.evaluation;
      EXPECT_EQ(a.received[d], b.received[d]);
      if (!is_exact) continue;
      EXPECT_EQ(a.peak[d], b.peak[d]);
      EXPECT_EQ(a.use[d].compute, b.use[d].compute);
      EXPECT_EQ(a.use[d].communication, b.use[d].communication);
    }
    return true;
  }

  int joined_ = 0;  // strategies that are faster in buckets

  void ExpectEqualInBuckets(const PodsAtWork& at, const Strategy& strategy, const Strategy& of_all,
                            bool is_exact) {
    const Bytes bucket(4 << 20);
    const Evaluation joined = at.first.EvaluateBriefly(strategy, kNoCutoff, nullptr, bucket);
    const Evaluation all_joined = at.whole.EvaluateBriefly(of_all, kNoCutoff, nullptr, bucket);
    EXPECT_EQ(at.bounded.EvaluateBriefly(strategy, joined.time, nullptr, bucket).time, joined.time);
    if (is_exact) {
      EXPECT_EQ(joined.time, all_joined.time);
    } else {
      ExpectNear(joined.time, all_joined.time);
    }
    joined_ += joined.bucket_bytes > Bytes(0);
    ExpectEqualWithBuckets(at, Ok(at.first.WithBucketsUpTo(strategy, bucket)),
                           Ok(at.whole.WithBucketsUpTo(of_all, bucket)), is_exact);
  }

  // In the best order, and in the search's, with buckets that the strategies name.
  void ExpectEqualWithBuckets(const PodsAtWork& at, const Strategy& first, const Strategy& whole,
                              bool is_exact) {
    const Evaluation ordered = at.first.EvaluateBrieflyInBestOrder(first);
    const EvaluatedStep step = Ok(at.first.EvaluateBestOrder(first));
    EXPECT_EQ(PredictionOf(ordered).time, PredictionOf(step.evaluation).time);
    const Evaluation all = at.whole.EvaluateBrieflyInBestOrder(whole);
    if (is_exact) {
      EXPECT_EQ(ordered.time, all.time);
      EXPECT_EQ(at.first.EvaluateBriefly(first, kNoCutoff).time,
                at.whole.EvaluateBriefly(whole, kNoCutoff).time);
    } else {
      ExpectNear(ordered.time, all.time);
    }
  }

  static void ExpectNear(Nanos a, Nanos b) {
    const auto time = static_cast<double>(b.value());
    EXPECT_NEAR(static_cast<double>(a.value()), time, 0.05 * time);
  }
};

TEST_P(PodsTest, ExpertsAndRandomStrategiesTakeWhatAllDevicesTake) {
  const PodCase& of = GetParam();
  const PodsAtWork at(of.model, of.pod_batch, of.machine, of.pods);
  ASSERT_EQ(at.first.status(), absl::OkStatus());
  int known = 0, experts = 0;
  for (const NamedStrategy& expert : ExpertStarts(at.one, at.pod)) {
    SCOPED_TRACE(expert.name);
    known += ExpectEqual(at, expert.strategy);
    ++experts;
  }
  EXPECT_GE(2 * known, of.shares ? 4 : experts);
  std::mt19937_64 random(5);
  int random_known = 0;
  const int rounds = CasesOf(12);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    random_known += ExpectEqual(at, at.space.RandomStrategy(random), round % 4 == 0);
  }
  EXPECT_GE(2 * random_known, of.shares ? 0 : rounds);
  if (!of.shares) {
    EXPECT_GE(joined_, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, PodsTest,
                         testing::ValuesIn(CasesOf(std::vector<PodCase>{
                             {"lenet", 8, "p100-4x4", {4, 4}},
                             {"lenet", 8, "h100-4x8", {8, 4}},
                             {"lenet", 8, "h100-8x8", {16, 4}, true, true},
                             {"lenet", 8, "h100-4x8", {2, 16}},
                             {"lenet", 4, "h100-4x8", {1, 32}},
                             {"lenet", 8, "h100-3x8", {8, 3}},
                             {"lenet", 4, "ethernet-16", {4, 4}},
                             {"mlp_tiny", 4, "ethernet-16", {1, 16}},
                             {"alexnet", 16, "minsky-8x4", {8, 4}},
                             {"resnet18", 8, "h100-4x8", {8, 4}},
                             {"rnnlm_tiny", 8, "h100-4x8", {8, 4}, false},
                             {"gpt_tiny", 8, "h100-4x8", {8, 4}},
                             {"nmt_tiny", 8, "k80-16x4", {16, 4}, false}})),
                         [](const auto& info) {
                           std::string name = info.param.model + "_" + info.param.machine + "_" +
                                              std::to_string(info.param.pods.devices) + "_" +
                                              std::to_string(info.param.pods.count);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace partita

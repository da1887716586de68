// Split training equals PyTorch: every reference in tests/data/oracle, and the small models of the
// zoo in tests/data/references, from the same weights on the same batches, on several devices,
// within the tolerance that the reference states. One device alone is of the cpu backend, too.

#include <cmath>
#include <cstdio>
#include <ostream>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "graph/support/check.h"
#include "gtest/gtest.h"
#include "runtime/backend/backends.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/reference/reference_run.h"
#include "runtime/train/reference_training.h"
#include "tests/end_to_end/reference_example.h"
#include "tests/testing/noisy_backend.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

// Random plans on each number of devices, and how many times as many the long run has.
constexpr int kRandomPlans = 6, kRandomPlansOfZoo = 2, kTimesInLongRun = 4;

struct Case {
  std::string folder;  // of tests/data
  int random_plans;
  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.folder; }
};

// The sample dimension over all devices; what does not split along it stays whole.
Strategy DataParallel(const Graph& graph, int devices) {
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    if (graph.rule(id).loops.empty() || !graph.rule(id).loops[0].splittable) continue;
    ParallelConfig& config = strategy.configs[id.index()];
    config.degrees[0] =
        static_cast<int32_t>(std::min<int64_t>(devices, graph.rule(id).loops[0].extent));
    config.devices.clear();
    for (int d = 0; d < config.degrees[0]; ++d) config.devices.push_back(DeviceId(d));
  }
  return strategy;
}

class SplitReferenceTest : public ::testing::TestWithParam<Case> {
 protected:
  void ExpectEqual(const Strategy& strategy, const PartitionOptions& options,
                   const std::string& what, const char* backend = "reference") {
    const auto got = example_.Train(strategy, options, backend);
    ASSERT_TRUE(got.ok()) << what << ": " << got.status();
    const ReferenceComparison comparison = CompareWithReference(example_.reference, *got);
    EXPECT_TRUE(comparison.equal) << what << ": " << comparison.first_difference;
    EXPECT_EQ(comparison.tensors, static_cast<int64_t>(example_.reference.expected.size()));
    if (comparison.worst_share <= worst_share_) return;
    worst_share_ = comparison.worst_share;
    worst_ = what + " " + comparison.worst;
  }

  // So many on each number of devices.
  void ExpectEqualOfRandomPlans(int plans, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int devices = 2; devices <= 4; ++devices) {
      StrategyCoverage coverage;
      for (int plan = 0; plan < plans; ++plan) {
        PartitionOptions options = RandomPartitionOptions(random);
        options.devices = devices;
        options.node_of_device.clear();
        const Strategy strategy = RandomStrategy(example_.graph, devices, random);
        coverage.Add(example_.graph, strategy, devices);
        ExpectEqual(strategy, options,
                    "plan " + std::to_string(plan) + " on " + std::to_string(devices));
      }
      EXPECT_GT(coverage.Share("neighbours on different devices"), 0.3);
      EXPECT_GT(coverage.Share("pending sum"), 0.2);
    }
    std::printf("%s: %d plans, worst %s at %.2f of its tolerance\n", GetParam().folder.c_str(),
                3 * plans, worst_.c_str(), worst_share_);
  }

  const ReferenceExample example_ =
      ReferenceExample::Load(PARTITA_TEST_DATA "/" + GetParam().folder);
  double worst_share_ = 0;
  std::string worst_;
};

TEST_P(SplitReferenceTest, OneDeviceAndDataParallelTrainAsPyTorchDoes) {
  ExpectEqual(SingleDevice(example_.graph, DeviceId(0)), {.devices = 1}, "single device");
  for (int devices = 2; devices <= 4; ++devices) {
    ExpectEqual(DataParallel(example_.graph, devices), {.devices = devices},
                "data parallel on " + std::to_string(devices));
  }
}

TEST_P(SplitReferenceTest, TheCpuBackendTrainsAsPyTorchDoes) {
  if (!MakeBackend("cpu").ok()) GTEST_SKIP() << MakeBackend("cpu").status();
  ExpectEqual(SingleDevice(example_.graph, DeviceId(0)), {.devices = 1}, "cpu", "cpu");
  ExpectEqual(DataParallel(example_.graph, 2), {.devices = 2}, "data parallel on cpu", "cpu");
  std::printf("%s on cpu: worst %s at %.2f of its tolerance\n", GetParam().folder.c_str(),
              worst_.c_str(), worst_share_);
}

TEST_P(SplitReferenceTest, RandomPlansTrainAsPyTorchDoes) {
  ExpectEqualOfRandomPlans(GetParam().random_plans, 2026);
}

TEST_P(SplitReferenceTest, LongRunOfRandomPlansTrainsAsPyTorchDoes) {
  ExpectEqualOfRandomPlans(kTimesInLongRun * GetParam().random_plans, 2027);
}

// Of each kind of value, one expected element that is moved by ten tolerances is found and named.
TEST_P(SplitReferenceTest, FindsAWrongValueOfEachKind) {
  const auto got = example_.Train(DataParallel(example_.graph, 2), {.devices = 2}, "reference");
  ASSERT_TRUE(got.ok()) << got.status();
  auto kind_of = [](const std::string& name) { return name.substr(0, name.find('/')); };
  for (const auto& [kind, tolerance] : example_.reference.tolerance) {
    double largest = 0;
    for (const auto& [name, values] : example_.reference.expected) {
      if (kind_of(name) != kind) continue;
      for (double value : values) largest = std::max(largest, std::abs(value));
    }
    ReferenceFolder moved = example_.reference;
    auto last = moved.expected.end();
    do --last;
    while (kind_of(last->first) != kind);
    last->second[last->second.size() / 2] += 10 * tolerance * largest;
    const ReferenceComparison comparison = CompareWithReference(moved, *got);
    EXPECT_FALSE(comparison.equal) << kind;
    EXPECT_THAT(comparison.first_difference, ::testing::StartsWith(last->first));
  }
}

std::string ModelOf(const ::testing::TestParamInfo<Case>& info) {
  return info.param.folder.substr(info.param.folder.find('/') + 1);
}

std::vector<Case> Cases(const std::string& folder, const std::vector<std::string>& names,
                        int random_plans) {
  std::vector<Case> cases;
  for (const std::string& name : names) cases.push_back({folder + "/" + name, random_plans});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(
    All, SplitReferenceTest,
    ::testing::ValuesIn(Cases("oracle", {"mlp", "lenet", "alexnet_s_tiny", "resnet_tiny"},
                              kRandomPlans)),
    ModelOf);
INSTANTIATE_TEST_SUITE_P(Zoo, SplitReferenceTest,
                         ::testing::ValuesIn(Cases("references",
                                                   {"alexnet_tiny", "bert_tiny", "gpt_tiny",
                                                    "inception_v3_tiny", "lstm_exported",
                                                    "nmt_tiny", "resnet101_tiny", "rnnlm_tiny",
                                                    "rnntc_tiny", "vit_tiny"},
                                                   kRandomPlansOfZoo)),
                         ModelOf);

// Sums in another order are allowed where a backend that rounds by chance is given, faults are not.
TEST(RoundingTest, WhatItChangesIsAllowedAndFaultsAreFound) {
  const auto example = ReferenceExample::Load(PARTITA_TEST_DATA "/oracle/resnet_tiny");
  const auto rounding = RoundingOfReference(example.graph, example.reference, RoundingBackend());
  ASSERT_TRUE(rounding.ok()) << rounding.status();
  ExecutorSetup setup;
  setup.devices = VirtualDevices(RoundingBackend(), 2);
  setup.communicator = CommunicatorBetween(setup.devices);
  const auto got = TrainSplitOnReference(example.graph, example.reference,
                                         DataParallel(example.graph, 2), {.devices = 2}, setup);
  ASSERT_TRUE(got.ok()) << got.status();
  const ReferenceComparison allowed = CompareWithReference(example.reference, *got, *rounding);
  EXPECT_TRUE(allowed.equal) << allowed.first_difference;
  RunValues wrong = *got;
  for (double& loss : wrong["loss"]) loss *= 1.01;
  EXPECT_FALSE(CompareWithReference(example.reference, wrong, *rounding).equal);
}

}  // namespace
}  // namespace partita

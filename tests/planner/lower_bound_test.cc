#include "planner/lower_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "planner/search/search_algorithm.h"
#include "tests/planner/fixture.h"
#include "tests/planner/some_subjects.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_graph.h"

namespace partita {
namespace {

std::vector<DecisionSubject> SomeSubjects(const SearchSpace& space, size_t most,
                                          std::mt19937_64& random) {
  return SubjectsWithin(space, most, [&](size_t) { return random(); });
}

struct LinkFigures {
  int64_t inside = 12'000'000'000, between = 7'000'000'000;  // bytes per second
  Nanos latency_inside{2000}, latency_between{1500};
};

// Two nodes of GPUs, of which the first has two.
Machine TwoNodes(int devices, const LinkFigures& figures) {
  Machine machine = Ok(FindMachine("p100-4x4", 1));
  std::vector<Device> gpus;
  std::vector<Link> links;
  for (int d = 0; d < devices; ++d) {
    Device gpu = machine.topology.device(DeviceId(0));
    gpu.name = absl::StrCat("gpu", d);
    gpu.node = d < 2 ? 0 : 1;
    links.push_back({.name = absl::StrCat("pcie", d),
                     .ends = {gpu.name, absl::StrCat("host", gpu.node)},
                     .bytes_per_second = figures.inside,
                     .latency = figures.latency_inside});
    gpus.push_back(std::move(gpu));
  }
  for (int n = 0; n < 2; ++n) {
    links.push_back({.name = absl::StrCat("ib", n),
                     .ends = {absl::StrCat("host", n), "switch"},
                     .bytes_per_second = figures.between,
                     .latency = figures.latency_between});
  }
  machine.topology = Ok(DeviceTopology::Create(std::move(gpus), std::move(links)));
  return machine;
}

Machine AnyMachine(std::mt19937_64& random) {
  const int devices = static_cast<int>(1 + random() % 4);
  const char* names[] = {"p100-4x4", "k80-16x4", "ethernet-4x1g", "ethernet-4x100m"};
  const size_t which = random() % 6;
  if (which < 4) return Ok(FindMachine(names[which], devices));
  const auto any = [&](std::initializer_list<int64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  return TwoNodes(devices, {.inside = any({200'000'000, 12'000'000'000}),
                            .between = any({10'000'000, 500'000'000, 7'000'000'000}),
                            .latency_inside = Nanos(any({1, 2000})),
                            .latency_between = Nanos(any({1500, 100'000}))});
}

// Random ones; and models whose weights are large against the activations of a small batch.
Graph AnyGraph(std::mt19937_64& random) {
  const char* models[] = {"mlp_tiny", "rnnlm_tiny", "lenet", "gpt_tiny"};
  const size_t which = random() % 20;
  if (which >= std::size(models)) return RandomTrainingGraph(random);
  return TrainingGraphOf(models[which], static_cast<int64_t>(2 + random() % 7));
}

TEST(LowerBoundTest, NeverExceedsAnExhaustiveOptimum) {
  constexpr uint64_t kSeeds = CasesOf(300);
  int cases = 0, walked = 0, near = 0, by_path = 0, nodes = 0, split = 0, searched = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = AnyGraph(random);
    const auto machine = std::make_shared<const Machine>(AnyMachine(random));
    const int devices = machine->topology.size();
    const auto costs =
        random() % 2 == 0 ? MakeSyntheticCostModel(machine) : MakeDefaultCostModel(machine);
    Evaluator::Options options;
    options.choices.fuse = random() % 4 != 0;
    const Evaluator evaluator(graph, machine->topology, *costs, options);
    const LowerBound bound = LowerBoundOf(evaluator);
    ASSERT_TRUE(bound.is_complete);
    ASSERT_GT(bound.time(), Nanos(0));
    const SearchSpace space(graph, devices);
    for (int k = 0; k < 4; ++k) {
      const std::vector<DecisionSubject> free = SomeSubjects(space, 40, random);
      const Strategy start =
          k == 0 ? SingleDevice(graph, DeviceId(0)) : space.RandomStrategy(random);
      const SearchProblem problem{evaluator, SearchSpace(graph, devices, free), {{"any", start}}};
      const auto found = SearchExhaustive(problem, {.evaluations = 1000});
      if (!found.ok()) continue;  // out of memory
      ASSERT_LE(bound.time(), found->evaluation.time) << "seed " << seed;
      ++cases;
      walked += !free.empty();
      near += found->evaluation.time < bound.time() * 2;
      by_path += bound.path == bound.time();
      nodes += machine->topology.device(DeviceId(devices - 1)).node > 0;
      split += found->evaluation.time > bound.time() && devices > 1;
    }
    if (seed % 6 != 0) continue;
    // The best that a search finds, which also draws what is no candidate.
    const SearchProblem whole{evaluator, space, {{"one", SingleDevice(graph, DeviceId(0))}}};
    const auto found = SearchAuto(whole, {.evaluations = 150, .seed = seed, .threads = 1});
    if (!found.ok()) continue;
    ASSERT_LE(bound.time(), found->evaluation.time) << "seed " << seed;
    ++searched;
  }
  EXPECT_GE(cases, CasesOf(1000));
  EXPECT_GE(walked, CasesOf(800));
  EXPECT_GE(near, CasesOf(20));
  EXPECT_GE(by_path, CasesOf(200));
  EXPECT_GE(nodes, CasesOf(300));
  EXPECT_GE(split, CasesOf(300));
  EXPECT_GE(searched, CasesOf(40));
}

TEST(LowerBoundTest, IsNearOnOneDeviceAndHoldsForExperts) {
  for (const char* model : {"lenet", "alexnet", "resnet_tiny", "mlp"}) {
    const Workplace one(model, 64, "p100-4x4", 1);
    const LowerBound alone = LowerBoundOf(one.evaluator);
    EXPECT_GT(alone.time() * 3, one.evaluator.Evaluate(one.Expert("single_device")).time * 2)
        << model;
    const Workplace at(model, 64, "p100-4x4", 4);
    const LowerBound bound = LowerBoundOf(at.evaluator);
    EXPECT_LT(bound.path, alone.work) << model;
    EXPECT_LT(bound.work, alone.work) << model;
    for (const NamedStrategy& start : ExpertStarts(at.graph, at.machine->topology)) {
      EXPECT_LE(bound.time(), at.evaluator.Evaluate(start.strategy).time) << model << start.name;
    }
  }
}

// With a roofline, as the machine is said to be, and with the synthetic profile.
TEST(LowerBoundTest, HoldsForExpertsAndRandomStrategiesOfZooModels) {
  std::mt19937_64 random(7);
  const std::set<std::string> large = {"resnet18", "nmt_short"};  // no cases of 64 devices
  for (const std::string model :
       {"alexnet", "lenet", "mlp", "resnet_tiny", "resnet18", "rnnlm_tiny", "nmt_short"}) {
    for (int devices : {4, 16, 64}) {
      if (devices == 64 && large.contains(model)) continue;
      const Workplace at(model, 64, "k80-16x4", devices);
      const auto roofline = MakeDefaultCostModel(at.machine);
      const Evaluator by_roofline(at.graph, at.machine->topology, *roofline);
      const LowerBound bound = LowerBoundOf(at.evaluator), of_roofline = LowerBoundOf(by_roofline);
      std::vector<NamedStrategy> strategies = ExpertStarts(at.graph, at.machine->topology);
      if (devices == 64) strategies.resize(std::min<size_t>(4, strategies.size()));
      for (int k = 0; k < 2; ++k) strategies.push_back({"random", at.space.RandomStrategy(random)});
      for (const NamedStrategy& one : strategies) {
        EXPECT_LE(bound.time(), at.evaluator.EvaluateBriefly(one.strategy, kNoCutoff).time)
            << model << devices << one.name;
        EXPECT_LE(of_roofline.time(), by_roofline.EvaluateBriefly(one.strategy, kNoCutoff).time)
            << model << devices << one.name;
      }
    }
  }
}

// Where nothing travels all is work: kernels, updates, sums of gradients, loads.
TEST(LowerBoundTest, IsAllButReachedOnOneDevice) {
  for (const char* model : {"alexnet", "resnet18", "nmt_short", "rnnlm_tiny", "gpt_tiny"}) {
    const Workplace at(model, 16, "p100-4x4", 1);
    const auto roofline = MakeDefaultCostModel(at.machine);
    const Evaluator evaluator(at.graph, at.machine->topology, *roofline);
    const LowerBound bound = LowerBoundOf(evaluator);
    const Nanos time = evaluator.Evaluate(at.Expert("single_device")).time;
    EXPECT_LE(bound.time(), time) << model;
    EXPECT_LT(GapOf(time, bound.time()), 0.1) << model;
  }
}

TEST(LowerBoundTest, PathsWaitForWhatTravels) {
  const Graph graph = TrainingGraphOf("mlp", 64);
  const auto bound_on = [&](int devices, const LinkFigures& figures) {
    const auto machine = std::make_shared<const Machine>(TwoNodes(devices, figures));
    const auto costs = MakeDefaultCostModel(machine);
    return LowerBoundOf(Evaluator(graph, machine->topology, *costs));
  };
  const LinkFigures slow{.inside = 100'000'000, .between = 10'000'000};
  const LinkFigures late{.latency_inside = Nanos(50'000)};
  const Nanos fast_path = bound_on(4, {}).path;
  EXPECT_GT(bound_on(4, slow).path, fast_path);
  EXPECT_GT(bound_on(4, late).path, fast_path);
  EXPECT_LE(bound_on(4, slow).path, bound_on(1, slow).path);
}

TEST(LowerBoundTest, SaysWhereItIsNotOfAllSplits) {
  EXPECT_TRUE(LowerBoundOf(Workplace("lenet", 64, "p100-4x4", 8).evaluator).is_complete);
  const LowerBound bound = LowerBoundOf(Workplace("lenet", 64, "p100-4x4", 16).evaluator);
  EXPECT_FALSE(bound.is_complete);
  EXPECT_GT(bound.time(), Nanos(0));
}

TEST(LowerBoundTest, GapIsThePartAboveTheBound) {
  EXPECT_EQ(GapOf(Nanos(200), Nanos(150)), 0.25);
  EXPECT_EQ(GapOf(Nanos(100), Nanos(100)), 0);
  EXPECT_EQ(GapOf(Nanos(100), Nanos(120)), 0);
  EXPECT_EQ(GapOf(Nanos(100), Nanos(0)), 1);
}

}  // namespace
}  // namespace partita

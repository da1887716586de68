// Kept fragments within a limit: what goes, what they count, and that it changes nothing.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/partition/partition.h"
#include "graph/partition/planned_step.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/step_cache.h"
#include "tests/planner/strategies.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_collectives.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr Bytes kNoLimit(int64_t{1} << 40);

// Rules for a machine of so many devices.
class Rules {
 public:
  Rules(const Graph& graph, int devices)
      : machine_(std::make_shared<const Machine>(Ok(FindMachine("k80-16x4", devices)))),
        costs_(MakeSyntheticCostModel(machine_)),
        resources_(machine_->topology),
        distances_(graph) {}

  FlatteningRules flattening() const { return {resources_, *costs_, sizes_, &distances_}; }

 private:
  std::shared_ptr<const Machine> machine_;
  std::unique_ptr<CostModel> costs_;
  SimulatedResources resources_;
  MemorySizes sizes_;
  GraphDistances distances_;
};

// A walk as searches make them: decisions of a few strategies in the place of others.
class RandomWalk {
 public:
  RandomWalk(const Graph& graph, const PartitionOptions& options, std::mt19937_64& random)
      : graph_(graph), options_(options), random_(random) {
    for (int k = 0; k < 3; ++k) {
      sources_.push_back(RandomStrategy(graph, options.devices, random));
    }
    current_ = sources_[0];
  }

  // The next strategy, with collectives' algorithms and buckets now and then.
  Strategy Next() {
    const Strategy& source = sources_[random_() % sources_.size()];
    const OpId op = graph_.anchors()[random_() % graph_.anchors().size()];
    current_.configs[op.index()] = source.configs[op.index()];
    if (random_() % 8 == 0) current_.weights = source.weights;
    if (random_() % 16 == 0) current_.host_device = source.host_device;
    if (random_() % 16 == 0) {
      sources_[random_() % sources_.size()] = RandomStrategy(graph_, options_.devices, random_);
    }
    return random_() % 16 == 0 ? WithRandomCollectives(graph_, current_, options_, random_)
                               : current_;
  }

 private:
  const Graph& graph_;
  const PartitionOptions& options_;
  std::mt19937_64& random_;
  std::vector<Strategy> sources_;
  Strategy current_;
};

std::vector<int64_t> TimesOf(const FlatStep& step) {
  std::vector<int64_t> times;
  for (const TaskCost& cost : step.costs) times.push_back(cost.time.value());
  return times;
}

// What both caches say about a strategy. Returns its time, if there is one.
std::optional<Nanos> ExpectSame(StepCache& a, StepCache& b, const Strategy& strategy,
                                Nanos cutoff) {
  const auto of_a = Ok(a.FindOrBuild(strategy, {.cutoff = cutoff}));
  const auto of_b = Ok(b.FindOrBuild(strategy, {.cutoff = cutoff}));
  EXPECT_EQ(of_a.has_step, of_b.has_step);
  // What is kept decides how soon a strategy that is too long is given up.
  if (!of_a.has_step || !of_b.has_step) return std::nullopt;
  EXPECT_EQ(a.CanSimulate(), b.CanSimulate());
  std::optional<Nanos> time;
  if (a.CanSimulate() && b.CanSimulate()) {
    time = a.Simulate(kNoCutoff);
    EXPECT_EQ(*time, b.Simulate(kNoCutoff));
    EXPECT_EQ(a.tasks(), b.tasks());
    EXPECT_EQ(a.Starts(), b.Starts());
  }
  const FlatStep &flat_a = a.Flat(), &flat_b = b.Flat();
  EXPECT_EQ(TimesOf(flat_a), TimesOf(flat_b));
  EXPECT_EQ(flat_a.tasks.successors, flat_b.tasks.successors);
  EXPECT_EQ(flat_a.tasks.by_key, flat_b.tasks.by_key);
  EXPECT_EQ(flat_a.uses.buffers.size(), flat_b.uses.buffers.size());
  return time;
}

// Counts of what a walk has met.
struct Met {
  int simulated = 0, given_up = 0, shrunk = 0;
};

void ExpectLimitChangesNothing(uint64_t seed, int steps, Met& met) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Graph graph = RandomTrainingGraph(random);
  PartitionOptions options = RandomPartitionOptions(random);
  options.native_formats = random() % 4 == 0;
  const Rules rules(graph, 16);
  StepCache whole(graph, options, rules.flattening(), kNoLimit);
  StepCache tight(graph, options, rules.flattening(), kNoLimit);
  RandomWalk walk(graph, options, random);
  ExpectSame(whole, tight, walk.Next(), kNoCutoff);
  // From nothing that stays besides what is in use to a few strategies.
  const Bytes most(tight.bytes().value() * static_cast<int64_t>(random() % 4));
  tight.SetMost(most);
  Nanos shortest = kNoCutoff;
  for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
    const bool is_cut = random() % 4 == 0 && shortest != kNoCutoff;
    const Nanos cutoff = is_cut ? Nanos(shortest.value() / 4 * 5) : kNoCutoff;
    const auto time = ExpectSame(whole, tight, walk.Next(), cutoff);
    if (time.has_value()) shortest = std::min(shortest, *time);
    met.simulated += time.has_value();
    met.given_up += is_cut && !time.has_value();
    met.shrunk += tight.bytes() < whole.bytes();
  }
}

TEST(CacheLimitTest, DroppingTheOldestChangesNothing) {
  constexpr int kSeeds = CasesOf(40), kSteps = 80;
  Met met;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ExpectLimitChangesNothing(seed, kSteps, met);
    if (HasFailure()) return;
  }
  EXPECT_GT(met.simulated, kSeeds * kSteps / 8);
  EXPECT_GT(met.given_up, 0);
  EXPECT_GT(met.shrunk, kSeeds * kSteps / 2);
}

int64_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// Sanitizers have an allocator of their own: with them only the count is looked at.
TEST(CacheLimitTest, CountsTheMemoryThatIsFreed) {
  for (const char* model : {"alexnet", "rnnlm_tiny"}) {
    SCOPED_TRACE(model);
    const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, 64)), {}));
    const Rules rules(graph, 16);
    std::mt19937_64 random(7);
    const PartitionOptions options =
        PartitionOptionsOf(Ok(FindMachine("k80-16x4", 16)).topology, {});
    StepCache cache(graph, options, rules.flattening(), kNoLimit);
    RandomWalk walk(graph, options, random);
    // All steps with sanitizers too: of a short walk most of what is kept is in use.
    for (int step = 0; step < 120; ++step) {
      Ok(cache.FindOrBuild(walk.Next(), {}));
    }
    const int64_t counted = cache.bytes().value(), allocated = AllocatedBytes();
    cache.SetMost(Bytes(0));
    const int64_t dropped = counted - cache.bytes().value();
    EXPECT_GT(dropped, counted / 2);
    if (kSanitized) continue;
    const int64_t freed = allocated - AllocatedBytes();
    EXPECT_GT(dropped * 10, freed * 9) << freed;
    EXPECT_LT(dropped * 10, freed * 11) << freed;
  }
}

TEST(CacheLimitTest, WhatWasUsedLastStays) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("lenet", 64)), {}));
  const Rules rules(graph, 4);
  const PartitionOptions options{.devices = 4};
  StepCache cache(graph, options, rules.flattening(), kNoLimit);
  const Strategy first = SplitFirstLoop(graph, 4), second = SingleDevice(graph, DeviceId(1)),
                 third = SingleDevice(graph, DeviceId(2));
  const auto missing_of = [&](const Strategy& strategy) {
    Ok(cache.FindOrBuild(strategy, {}));
    return cache.missing();
  };
  EXPECT_GT(missing_of(first), 0);
  const Bytes of_first = cache.bytes();
  EXPECT_GT(missing_of(second), 0);
  const Bytes of_second = cache.bytes() - of_first;
  EXPECT_GT(missing_of(third), 0);
  const Bytes of_third = cache.bytes() - of_first - of_second;
  // Room for two: the first goes. Three quarters of the limit are left.
  cache.SetMost(Bytes((of_second + of_third).value() / 3 * 4 + 4));
  EXPECT_LE(cache.bytes(), of_second + of_third);
  EXPECT_EQ(missing_of(second), 0);
  EXPECT_EQ(missing_of(third), 0);
  EXPECT_GT(missing_of(first), 0);
}

TEST(CacheLimitTest, EvaluationsGoOnAfterAllIsDropped) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("lenet", 64)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine("p100-4x4", 4)));
  const auto costs = MakeSyntheticCostModel(machine);
  const Evaluator evaluator(graph, machine->topology, *costs);
  evaluator.DropKept(Bytes(0));  // of nothing
  const Strategy strategy = SplitFirstLoop(graph, 4), other = SingleDevice(graph, DeviceId(1));
  const Evaluation before = evaluator.EvaluateBriefly(strategy, kNoCutoff);
  EXPECT_GT(before.solved, 0);
  EXPECT_EQ(evaluator.EvaluateBriefly(strategy, kNoCutoff).solved, 0);
  evaluator.EvaluateBriefly(other, kNoCutoff);
  evaluator.DropKept(Bytes(0));
  const Evaluation after = evaluator.EvaluateBriefly(strategy, kNoCutoff);
  EXPECT_GT(after.solved, 0);
  EXPECT_EQ(after.time, before.time);
  EXPECT_EQ(after.peak, before.peak);
}

}  // namespace
}  // namespace partita

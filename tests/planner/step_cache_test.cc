// Flat steps from kept fragments equal those of whole task graphs, bit for bit.
#include "planner/step_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <variant>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/partition/fragment_cache.h"
#include "graph/partition/partition.h"
#include "graph/partition/planned_step.h"
#include "graph/support/check.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/bucket_rule.h"
#include "planner/evaluator.h"
#include "tests/planner/strategies.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_collectives.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

// Everything that a flat step holds, as one list.
std::vector<int64_t> NumbersOf(const FlatStep& step) {
  std::vector<int64_t> numbers;
  const auto add = [&](const std::vector<int32_t>& list) {
    numbers.push_back(static_cast<int64_t>(list.size()));
    numbers.insert(numbers.end(), list.begin(), list.end());
  };
  for (const auto* list :
       {&step.tasks.successor_begin, &step.tasks.successors, &step.tasks.resource_begin,
        &step.tasks.resource_of, &step.tasks.predecessor_count, &step.tasks.by_key,
        &step.tasks.subject_of, &step.uses.use_begin, &step.uses.overwrite_begin}) {
    add(*list);
  }
  for (const TaskCost& cost : step.costs) {
    numbers.insert(numbers.end(), {cost.time.value(), static_cast<int64_t>(cost.source),
                                   static_cast<int64_t>(cost.spread * 1e15)});
  }
  const BufferUses& uses = step.uses;
  numbers.insert(numbers.end(), {step.tasks.resources, uses.devices});
  numbers.insert(numbers.end(), uses.is_communication.begin(), uses.is_communication.end());
  for (const auto& buffer : uses.buffers) {
    numbers.insert(numbers.end(),
                   {buffer.bytes, buffer.device.value(), static_cast<int64_t>(buffer.format),
                    buffer.persistent, buffer.host_reads});
  }
  for (const auto& use : uses.uses) {
    numbers.insert(numbers.end(), {use.buffer.value(), use.writes});
  }
  for (const auto& row : uses.overwrites) {
    numbers.insert(numbers.end(), {row.from.value(), row.to.value()});
  }
  for (const auto& scratch : uses.scratch) {
    numbers.insert(numbers.end(), {scratch.device.value(), scratch.bytes});
  }
  return numbers;
}

// Sizes that tell formats and kernels apart.
MemorySizes TellingSizes() {
  return {.buffer_bytes =
              [](const Buffer& buffer) {
                return buffer.elements() * SizeOf(buffer.dtype) +
                       (buffer.format == Format::kNative ? 128 : 0);
              },
          .scratch_bytes =
              [](const KernelSignature& signature) {
                return static_cast<int64_t>(ToString(signature).size());
              }};
}

// A change as a search makes them: one operator's configuration from another strategy.
Strategy Mixed(const Graph& graph, Strategy strategy, const Strategy& other,
               std::mt19937_64& random) {
  const OpId op = graph.anchors()[random() % graph.anchors().size()];
  strategy.configs[op.index()] = other.configs[op.index()];
  if (random() % 4 == 0) strategy.weights = other.weights;
  if (random() % 4 == 0) strategy.host_device = other.host_device;
  return strategy;
}

const FlatStep& FlatOf(StepCache& cache, const Strategy& strategy) {
  CHECK(Ok(cache.FindOrBuild(strategy, {})).has_step);
  return cache.Flat();
}

// Task graphs' own dependencies, as the flat form lists them.
void ExpectSameDependencies(const TaskGraph& graph, const FlatTasks& flat) {
  size_t edges = 0;
  for (const Task& task : graph.tasks()) {
    for (TaskId before : task.dependencies) {
      const auto after = flat.SuccessorsOf(before.index());
      EXPECT_NE(std::find(after.begin(), after.end(), task.id.value()), after.end());
    }
    edges += task.dependencies.size();
  }
  EXPECT_EQ(edges, flat.successors.size());
}

// Looks for a step that is given up on the way: interrupted, above its cutoff, or of a strategy that
// does not fit.
void GiveUp(StepCache& cache, const Graph& graph, Strategy strategy, std::mt19937_64& random) {
  StepCache::Limits limits{.cutoff = Nanos(1)};
  const uint64_t kind = random() % 3;
  if (kind == 0) {
    limits.interrupted = [left = random() % 8]() mutable { return left == 0 || --left == 0; };
  } else if (kind == 1) {
    const OpId op = graph.anchors()[random() % graph.anchors().size()];
    strategy.configs[op.index()].devices.push_back(DeviceId(1 << 20));
  }
  const auto found = cache.FindOrBuild(strategy, limits);
  EXPECT_EQ(found.ok(), kind != 1);
}

struct CacheCase {
  const Graph& graph;
  PartitionOptions options;
  Bytes most;  // of the cache
  Strategy first, last;
};

// Placed tasks have the schedule of the whole step, and stop as soon as it is above a cutoff.
void ExpectSameSchedule(StepCache& cache, const FlatStep& whole) {
  const Schedule schedule = Simulate(whole.tasks, DurationsOf(whole.costs));
  EXPECT_EQ(cache.tasks(), static_cast<int64_t>(whole.costs.size()));
  EXPECT_EQ(cache.Simulate(schedule.makespan), schedule.makespan);
  EXPECT_EQ(cache.Starts(), schedule.start);
  if (schedule.makespan < Nanos(2)) return;
  for (const Nanos cutoff : {schedule.makespan - Nanos(1), Nanos(schedule.makespan.value() / 2)}) {
    const Nanos bound = cache.Simulate(cutoff);
    EXPECT_GT(bound, cutoff);
    EXPECT_LE(bound, schedule.makespan);
  }
}

// Several strategies in a row, on the way from the first to the last, from one cache: against whole
// task graphs. Counts those that had a schedule of placed tasks, and those of them with control
// edges.
struct Simulated {
  int all = 0, held_back = 0;
};
Simulated ExpectCacheEqualsPartition(const CacheCase& one, std::mt19937_64& random) {
  const Graph& graph = one.graph;
  const PartitionOptions& options = one.options;
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine("k80-16x4", 16)));
  const auto costs = MakeSyntheticCostModel(machine);
  const SimulatedResources resources(machine->topology);
  const MemorySizes sizes = TellingSizes();
  const GraphDistances distances(graph);
  const FlatteningRules rules{resources, *costs, sizes, &distances};
  StepCache cache(graph, options, rules, one.most);
  Strategy strategy = one.first;
  Simulated simulated;
  for (int step = 0; step < 6; ++step) {
    Strategy chosen = strategy;
    if (step % 2 == 1) chosen = WithRandomCollectives(graph, strategy, options, random);
    const TaskGraph tasks = Ok(Partition(graph, chosen, options));
    const FlatStep whole = FlattenStep(tasks, rules);
    std::mt19937_64 own = random;  // what comes after does not depend on what is given up
    for (uint64_t left = own() % 3; left > 0; --left) {
      GiveUp(cache, graph, Mixed(graph, strategy, one.last, own), own);
    }
    const FlatStep& kept = FlatOf(cache, chosen);
    EXPECT_EQ(NumbersOf(kept), NumbersOf(whole)) << "step " << step;
    ExpectSameDependencies(tasks, kept.tasks);
    if (cache.CanSimulate()) {
      ++simulated.all;
      simulated.held_back += !whole.tasks.after.empty();
      ExpectSameSchedule(cache, whole);
    }
    if (testing::Test::HasFailure()) break;
    strategy = step == 3 ? one.last : Mixed(graph, strategy, one.last, random);
  }
  return simulated;
}

Simulated ExpectCacheEqualsPartition(uint64_t seed, Bytes most) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Graph graph = RandomTrainingGraph(random);
  PartitionOptions options = RandomPartitionOptions(random);
  options.native_formats = random() % 2 == 0;
  const Strategy first = RandomStrategy(graph, options.devices, random);
  const Strategy other = RandomStrategy(graph, options.devices, random);
  return ExpectCacheEqualsPartition({graph, options, most, first, other}, random);
}

TEST(StepCacheTest, FlatStepsEqualThoseOfTaskGraphs) {
  constexpr uint64_t kSeeds = CasesOf(120);
  Simulated simulated;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Simulated more = ExpectCacheEqualsPartition(seed, Bytes(1 << 28));
    simulated.all += more.all;
    simulated.held_back += more.held_back;
    if (HasFailure()) return;
  }
  EXPECT_GT(simulated.all, CasesOf(120));
  EXPECT_GT(simulated.held_back, CasesOf(40));
}

// One group's exchange overwrites what another has read: paths do not end with the group.
TEST(StepCacheTest, GroupsOfATensorThatWaitForEachOther) {
  ExpectCacheEqualsPartition(394, Bytes(1 << 28));
}

TEST(StepCacheTest, DroppingWhatIsKeptChangesNothing) {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    ExpectCacheEqualsPartition(seed, Bytes(0));
    if (HasFailure()) return;
  }
}

// What is left of a task graph of which only the collectives are wanted.
void ExpectCollectivesOf(const TaskGraph& whole, const TaskGraph& kept) {
  EXPECT_EQ(kept.size(), whole.size());
  std::vector<TaskId> wanted, found;
  for (const Task& task : whole.tasks()) {
    if (std::holds_alternative<CollectiveTask>(task.body)) wanted.push_back(task.id);
  }
  for (const Task& task : kept.tasks()) found.push_back(task.id);
  EXPECT_EQ(found, wanted);
  for (TaskId id : wanted) EXPECT_EQ(kept.task(id).key, whole.task(id).key);
  EXPECT_EQ(kept.slots(), whole.buffers().size());
  for (const Buffer& buffer : kept.buffers()) EXPECT_EQ(&kept.buffer(buffer.id), &buffer);
  for (TaskId id : wanted) {
    for (const Slice& slice : std::get<CollectiveTask>(kept.task(id).body).send) {
      EXPECT_EQ(kept.buffer(slice.buffer).box, whole.buffer(slice.buffer).box);
    }
  }
  const auto size = static_cast<int32_t>(whole.size());
  for (int32_t begin = 0; begin <= size; begin += 1 + size / 8) {
    EXPECT_EQ(whole.TasksBetween(begin, size).size(), whole.size() - static_cast<size_t>(begin));
    const auto behind = std::count_if(wanted.begin(), wanted.end(),
                                      [begin](TaskId id) { return id.value() >= begin; });
    EXPECT_EQ(kept.TasksBetween(begin, size).size(), static_cast<size_t>(behind));
    EXPECT_EQ(kept.TasksBetween(0, begin).size(), wanted.size() - static_cast<size_t>(behind));
  }
}

TEST(StepCacheTest, CollectivesAreKeptUnderTheirNumbers) {
  size_t left_out = 0, collectives = 0;
  for (uint64_t seed = 0; seed < CasesOf(20); ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = RandomTrainingGraph(random);
    const BucketRule rule(graph, FragmentCache(graph, {.devices = 4}).places());
    FragmentCache cache(graph, {.devices = 4}, FragmentCache::Use::kPricing);
    StepFragments step;
    ASSERT_EQ(cache.FindOrBuild(RandomStrategy(graph, 4, random), step), absl::OkStatus());
    for (size_t t = 0; t < step.tensors.size(); ++t) {
      const TensorId id(static_cast<int32_t>(t));
      for (const TensorFragment& fragment : step.tensors[t]->groups) {
        TaskGraph kept = fragment.graph;
        const int64_t before = kept.HeapBytes();
        const int64_t freed = kept.KeepCollectives();
        EXPECT_EQ(kept.HeapBytes(), before - freed);
        ExpectCollectivesOf(fragment.graph, kept);
        EXPECT_EQ(rule.JoinableOf(id, kept), rule.JoinableOf(id, fragment.graph));
        left_out += kept.size() - kept.tasks().size();
        collectives += kept.tasks().size();
      }
    }
  }
  EXPECT_GT(left_out, CasesOf(500));
  EXPECT_GT(collectives, CasesOf(100));
}

// Kernels that are not kept leave their numbers, their devices and their bytes; plans keep all.
TEST(StepCacheTest, KernelsAreLeftOutOfWhatIsOnlyPriced) {
  std::mt19937_64 random(9);
  const Graph graph = RandomTrainingGraph(random);
  const Strategy strategy = RandomStrategy(graph, 4, random);
  for (const auto use : {FragmentCache::Use::kPlan, FragmentCache::Use::kPricing}) {
    FragmentCache cache(graph, {.devices = 4}, use);
    StepFragments step;
    ASSERT_EQ(cache.FindOrBuild(strategy, step), absl::OkStatus());
    for (const Operator& op : graph.ops()) {
      const OperatorFragment& fragment = *step.operators[op.id.index()];
      const TaskGraph whole = fragment.graph;
      const int64_t heap = fragment.graph.HeapBytes();
      const Bytes before = cache.bytes();
      cache.KeepNoKernels(op.id);
      EXPECT_EQ(fragment.graph.size(), whole.size());
      EXPECT_EQ(fragment.graph.slots(), whole.slots());
      ASSERT_EQ(fragment.devices.size(), whole.size());
      for (const Task& task : whole.tasks()) {
        EXPECT_EQ(fragment.devices[task.id.index()], std::get<ComputeTask>(task.body).device);
      }
      if (use == FragmentCache::Use::kPlan) {
        EXPECT_EQ(fragment.graph.tasks().size(), whole.size());
        continue;
      }
      EXPECT_TRUE(fragment.graph.tasks().empty());
      EXPECT_TRUE(fragment.graph.buffers().empty());
      EXPECT_EQ(cache.bytes(), before - Bytes(heap - fragment.graph.HeapBytes()));
    }
  }
}

// Distinct fragments of all tensors, from a cache of its own.
size_t DistinctFragments(const Graph& graph, const Strategy& strategy, FragmentCache::Use use) {
  FragmentCache cache(graph, {.devices = 4}, use);
  StepFragments step;
  CHECK(cache.FindOrBuild(strategy, step).ok());
  return std::set<const TensorFragments*>(step.tensors.begin(), step.tensors.end()).size();
}

// Layers that are alike have tensors of equal content where they are split alike.
TEST(StepCacheTest, TensorsOfEqualContentShareFragmentsThatAreOnlyPriced) {
  for (const char* model : {"resnet_tiny", "rnnlm_tiny"}) {
    SCOPED_TRACE(model);
    const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, 8)), {}));
    const DeviceTopology topology = Ok(FindMachine("p100-4x4", 4)).topology;
    const Strategy alike = SplitFirstLoop(graph, 4);
    const size_t tensors = graph.tensors().size();
    EXPECT_EQ(DistinctFragments(graph, alike, FragmentCache::Use::kPlan), tensors);
    EXPECT_LT(DistinctFragments(graph, alike, FragmentCache::Use::kPricing), tensors * 3 / 4);
    for (uint64_t seed = 0; seed < CasesOf(3); ++seed) {
      std::mt19937_64 random(seed);
      const Strategy other = RandomStrategy(graph, 4, random);
      const PartitionOptions options = PartitionOptionsOf(topology, {});
      ExpectCacheEqualsPartition({graph, options, Bytes(1 << 28), alike, other}, random);
      if (HasFailure()) return;
    }
  }
}

// Whatever splits of its reader lead to them.
TEST(StepCacheTest, WeightsThatLieAlikeShareFragments) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("lenet", 8)), {}));
  FragmentCache cache(graph, {.devices = 4}, FragmentCache::Use::kPricing);
  const Operator& conv = *std::find_if(graph.ops().begin(), graph.ops().end(),
                                       [](const Operator& op) { return op.name == "conv1"; });
  const auto updates_under = [&](const char* loop) {
    Strategy strategy = SplitFirstLoop(graph, 4);
    auto& degrees = strategy.configs[conv.id.index()].degrees;
    std::fill(degrees.begin(), degrees.end(), 1);
    degrees[static_cast<size_t>(graph.rule(conv.id).FindLoop(loop))] = 4;
    StepFragments step;
    CHECK(cache.FindOrBuild(strategy, step).ok());
    std::vector<const OperatorFragment*> updates;
    for (const Operator& op : graph.ops()) {
      if (op.anchor_weight == conv.inputs[1]) updates.push_back(step.operators[op.id.index()]);
    }
    return updates;
  };
  const auto by_sample = updates_under("n");
  EXPECT_FALSE(by_sample.empty());
  EXPECT_EQ(updates_under("oh"), by_sample) << "copies on all devices";
  EXPECT_NE(updates_under("k"), by_sample) << "channels apart";
}

// A bucket of one tensor is not that of another which shares its fragments.
TEST(StepCacheTest, BucketsOfTensorsThatShareFragmentsAreToldApart) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("resnet_tiny", 8)), {}));
  const PartitionOptions options{.devices = 4};
  Strategy strategy = SplitFirstLoop(graph, 4);
  const std::vector<CollectiveStepId> sums =
      GradientSums(graph, Ok(Partition(graph, strategy, options)));
  FragmentCache fragments(graph, options, FragmentCache::Use::kPricing);
  StepFragments step;
  CHECK(fragments.FindOrBuild(strategy, step).ok());
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine("p100-4x4", 4)));
  const auto costs = MakeSyntheticCostModel(machine);
  const SimulatedResources resources(machine->topology);
  const MemorySizes sizes;
  const GraphDistances distances(graph);
  const FlatteningRules rules{resources, *costs, sizes, &distances};
  StepCache cache(graph, options, rules, Bytes(1 << 28));
  std::set<const TensorFragments*> distinct;
  for (size_t a = 0; a + 1 < sums.size(); ++a) {
    distinct.insert(step.tensors[sums[a].tensor.index()]);
    strategy.buckets = {{{sums[a], sums.back()}, "ring"}};
    const FlatStep whole = FlattenStep(Ok(Partition(graph, strategy, options)), rules);
    EXPECT_EQ(NumbersOf(FlatOf(cache, strategy)), NumbersOf(whole));
  }
  EXPECT_LT(distinct.size() + 1, sums.size());
}

// Whole evaluations of a model, in both formats, and where its buffers do not fit beside each other.
TEST(StepCacheTest, BriefEvaluationsEqualFullOnes) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("alexnet", 64)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine("p100-4x4", 4)));
  const auto costs = MakeSyntheticCostModel(machine);
  struct Case {
    bool native = false;
    Bytes limit;
  };
  for (const auto& [native, limit] : {Case{}, {.native = true}, {.limit = Bytes(4'000'000)}}) {
    Evaluator::Options options;
    options.choices.native_formats = native;
    options.memory_limit = limit;
    options.sizes = TellingSizes();
    options.max_cached = Bytes(8 << 20);
    const Evaluator evaluator(graph, machine->topology, *costs, options);
    std::mt19937_64 random(3);
    Strategy strategy = RandomStrategy(graph, 4, random);
    const Strategy other = RandomStrategy(graph, 4, random);
    for (int step = 0; step < 12; ++step) {
      const Evaluation full = Ok(evaluator.EvaluateStep(strategy)).evaluation;
      const Evaluation brief =
          evaluator.EvaluateBriefly(strategy, Nanos(std::numeric_limits<int64_t>::max()));
      EXPECT_EQ(brief.time, full.time);
      EXPECT_EQ(brief.tasks, full.tasks);
      EXPECT_THAT(brief.peak, testing::Pointwise(testing::Ge(), full.peak));
      if (native || limit > Bytes(0)) {
        EXPECT_EQ(brief.peak, full.peak);
      }
      EXPECT_EQ(brief.excess, full.excess);
      EXPECT_EQ(brief.reason, full.reason);
      strategy = Mixed(graph, strategy, other, random);
    }
  }
}

TEST(StepCacheTest, ErrorsLeaveTheCacheSound) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("lenet", 64)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine("p100-4x4", 4)));
  const auto costs = MakeSyntheticCostModel(machine);
  const SimulatedResources resources(machine->topology);
  const MemorySizes sizes;
  const FlatteningRules rules{resources, *costs, sizes};
  StepCache cache(graph, {.devices = 4}, rules, Bytes(1 << 28));
  const Strategy good = SingleDevice(graph, DeviceId(1));
  const std::vector<int64_t> before = NumbersOf(FlatOf(cache, good));
  Strategy bad = good;
  bad.configs[graph.anchors()[2].index()].devices = {DeviceId(4)};
  const auto found = cache.FindOrBuild(bad, {});
  EXPECT_EQ(found.status(), Partition(graph, bad, {.devices = 4}).status());
  EXPECT_FALSE(found.ok());
  EXPECT_EQ(NumbersOf(FlatOf(cache, good)), before);
}

}  // namespace
}  // namespace partita

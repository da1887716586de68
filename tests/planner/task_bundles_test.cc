// Kernels that are alike on several devices, and schedules of them as one, over several blocks of lanes.
#include "planner/task_bundles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/partition/partition.h"
#include "graph/partition/planned_step.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/simulator/critical_chain.h"
#include "planner/simulator/simulator.h"
#include "planner/step_cache.h"
#include "tests/planner/strategies.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Gt;

// Tasks of a fragment on a machine of 16 devices: what they hold, take, and follow.
struct OneTask {
  std::vector<int32_t> held;
  int64_t duration = 1;
  std::vector<int32_t> successors = {};
};

class TaskBundlesTest : public testing::Test {
 protected:
  int32_t Lane(int device) const { return resources_.ComputeLane(DeviceId(device)); }
  int32_t Sends(int device) const { return resources_.CommunicationLane(DeviceId(device)); }

  TaskBundles BundlesOf(const std::vector<OneTask>& list) const {
    FlatTasks tasks{.resources = resources_.count(), .successor_begin = {0}, .resource_begin = {0}};
    std::vector<Nanos> durations;
    for (const OneTask& task : list) {
      tasks.by_key.push_back(static_cast<int32_t>(tasks.by_key.size()));
      tasks.resource_of.insert(tasks.resource_of.end(), task.held.begin(), task.held.end());
      tasks.resource_begin.push_back(static_cast<int32_t>(tasks.resource_of.size()));
      tasks.successors.insert(tasks.successors.end(), task.successors.begin(),
                              task.successors.end());
      tasks.successor_begin.push_back(static_cast<int32_t>(tasks.successors.size()));
      durations.push_back(Nanos(task.duration));
    }
    std::vector<int64_t> paths(list.size());
    for (size_t t = list.size(); t-- > 0;) {
      for (int32_t next : list[t].successors) {
        paths[t] = std::max(paths[t], paths[static_cast<size_t>(next)]);
      }
      paths[t] += list[t].duration;
    }
    return TaskBundler(resources_).Bundle({tasks, durations, paths});
  }

  const DeviceTopology topology_ = Ok(FindMachine("k80-16x4", 16)).topology;
  const SimulatedResources resources_{topology_};
};

std::vector<std::vector<int32_t>> TasksByBundle(const TaskBundles& made) {
  std::vector<std::vector<int32_t>> tasks;
  for (const TaskBundle& bundle : made.bundles) {
    const auto list = made.TasksOf(bundle);
    tasks.emplace_back(list.begin(), list.end());
  }
  return tasks;
}

TEST_F(TaskBundlesTest, KernelsOfEqualTimesAreOne) {
  const TaskBundles made =
      BundlesOf({{{Lane(2)}, 5}, {{Lane(0)}, 5}, {{Lane(1)}, 7}, {{Lane(9)}, 5}});
  EXPECT_THAT(TasksByBundle(made), ElementsAre(ElementsAre(1, 0, 3), ElementsAre(2)));
  EXPECT_EQ(made.bundles[0].lanes, uint64_t{0b1000000101});
  EXPECT_THAT(made.bundle_of, ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(made.lane_of, ElementsAre(2, 0, 1, 9));
}

TEST_F(TaskBundlesTest, KernelsOfOneDeviceFollowEachOther) {
  const TaskBundles made =
      BundlesOf({{{Lane(0)}, 5}, {{Lane(0)}, 5}, {{Lane(1)}, 5}, {{Lane(1)}, 5}});
  EXPECT_THAT(TasksByBundle(made), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
}

TEST_F(TaskBundlesTest, TasksThatHoldAnythingElseAreSingle) {
  const TaskBundles made = BundlesOf(
      {{{Sends(0)}}, {{Sends(1)}}, {{Lane(0)}}, {{Lane(1), Sends(1)}}, {{}}, {{Lane(1)}}});
  EXPECT_THAT(TasksByBundle(made), ElementsAre(ElementsAre(2, 5), ElementsAre(0), ElementsAre(1),
                                               ElementsAre(3), ElementsAre(4)));
  EXPECT_FALSE(made.bundles[1].is_of_kernels());
}

// Where a sum of gradients joins others, it takes another time, and so do the paths of those before it.
TEST_F(TaskBundlesTest, KernelsThatDifferentTasksFollowAreApart) {
  const std::vector<OneTask> apart = {
      {{Lane(0)}, 5, {2}}, {{Lane(1)}, 5, {3}}, {{Sends(0)}}, {{Sends(1)}}};
  EXPECT_EQ(BundlesOf(apart).bundles.size(), 4);
  const std::vector<OneTask> together = {
      {{Lane(0)}, 5, {2}}, {{Lane(1)}, 5, {2}}, {{Sends(0), Sends(1)}}};
  EXPECT_EQ(BundlesOf(together).bundles.size(), 2);
  // Kernels before them, likewise.
  const std::vector<OneTask> before = {{{Lane(0)}, 5, {2}}, {{Lane(1)}, 5, {3}},
                                       {{Lane(2)}, 5, {4}}, {{Lane(3)}, 5, {5}},
                                       {{Sends(2)}},        {{Sends(3)}}};
  EXPECT_EQ(BundlesOf(before).bundles.size(), 6);
}

// Devices of cores that other devices name have their kernels wait for these.
TEST_F(TaskBundlesTest, KernelsOfSharedCoresAreSingle) {
  std::vector<Device> devices;
  Link net{.name = "net", .bytes_per_second = 1'000'000'000, .shared = true};
  for (const char* name : {"cpu0", "cpu1"}) {
    devices.push_back({.name = name, .memory = Bytes(1 << 30), .cores = {0, 1}});
    net.ends.push_back(name);
  }
  const SimulatedResources resources(Ok(DeviceTopology::Create(devices, {net})));
  ASSERT_FALSE(resources.CoreSets(DeviceId(0)).empty());
  const FlatTasks tasks{.resources = resources.count(),
                        .successor_begin = {0, 0, 0},
                        .resource_begin = {0, 1, 2},
                        .resource_of = {0, 1},
                        .by_key = {0, 1}};
  const std::vector<Nanos> durations(2, Nanos(3));
  const std::vector<int64_t> paths(2, 3);
  EXPECT_EQ(TaskBundler(resources).Bundle({tasks, durations, paths}).bundles.size(), 2);
}

TEST(LaneCountsTest, CountLikeNumbers) {
  std::mt19937_64 random(3);
  std::vector<uint64_t> counts(64, 0);
  LaneCounts many;
  for (int step = 0; step < 4000; ++step) {
    uint64_t lanes = random() & random();
    const bool adds = random() % 5 != 0;
    for (int lane = 0; lane < 64; ++lane) {
      const uint64_t bit = uint64_t{1} << lane;
      uint64_t& count = counts[static_cast<size_t>(lane)];
      if (!adds && count == 0) lanes &= ~bit;
      if ((lanes & bit) != 0) count += adds ? 1 : -1;
    }
    adds ? many.Add(lanes) : many.Subtract(lanes);
    for (int lane = 0; lane < 64; ++lane) {
      ASSERT_EQ(many.NonZero() >> lane & 1, counts[static_cast<size_t>(lane)] > 0);
    }
  }
  EXPECT_THAT(counts, Each(Gt(200)));
}

TEST(LaneCountsTest, SmallCountsBorrow) {
  std::mt19937_64 random(4);
  std::vector<uint64_t> counts;
  SmallLaneCounts small;
  for (int lane = 0; lane < 64; ++lane) {
    counts.push_back(random() % 60);
    small.Add(lane, counts.back());
  }
  for (int step = 0; step < 400; ++step) {
    uint64_t lanes = random(), zero = 0, borrowed = 0;
    for (int lane = 0; lane < 64; ++lane) {
      const uint64_t bit = uint64_t{1} << lane;
      uint64_t& count = counts[static_cast<size_t>(lane)];
      if (count == 0) lanes &= ~bit;
      if ((lanes & bit) == 0) continue;
      if (count % 16 == 0) borrowed |= bit;
      if (--count % 16 == 0) zero |= bit;
    }
    const SmallLaneCounts::Less less = small.Subtract(lanes);
    ASSERT_EQ(less.zero, zero);
    ASSERT_EQ(less.borrowed, borrowed);
  }
}

// Time of the tasks of the flat step's critical chain, by subject.
std::vector<Nanos> CriticalTimesOf(const FlatStep& step, const Schedule& schedule, int subjects) {
  std::vector<Nanos> times(static_cast<size_t>(subjects));
  for (TaskId task : CriticalChain(step.tasks, schedule)) {
    times[static_cast<size_t>(step.tasks.subject_of[task.index()])] +=
        step.costs[task.index()].time;
  }
  return times;
}

struct ManyDevices {
  const char* model;
  const char* machine;
  int devices;
};
class ManyDevicesTest : public testing::TestWithParam<ManyDevices> {};

// On the way from all devices alike to operators at random, one after another.
TEST_P(ManyDevicesTest, BundlesHaveTheScheduleOfTheirTasks) {
  const ManyDevices& at = GetParam();
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(at.model, 2 * at.devices)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine(at.machine, at.devices)));
  const auto costs = MakeSyntheticCostModel(machine);
  const SimulatedResources resources(machine->topology);
  const MemorySizes sizes;
  const GraphDistances distances(graph);
  const FlatteningRules rules{resources, *costs, sizes, &distances};
  const PartitionOptions options = PartitionOptionsOf(machine->topology, {});
  StepCache cache(graph, options, rules, Bytes(1 << 28));
  std::mt19937_64 random(7);
  const Strategy other = RandomStrategy(graph, at.devices, random);
  Strategy strategy = SplitFirstLoop(graph, at.devices);
  int32_t most_awaited = 0;
  for (uint64_t step = 0; step < CasesOf(8); ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    const FlatStep whole = FlattenStep(Ok(Partition(graph, strategy, options)), rules);
    ASSERT_TRUE(Ok(cache.FindOrBuild(strategy, {})).has_step);
    ASSERT_TRUE(cache.CanSimulate());
    const Schedule schedule = Simulate(whole.tasks, DurationsOf(whole.costs));
    ASSERT_EQ(cache.Simulate(schedule.makespan), schedule.makespan);
    ASSERT_EQ(cache.Starts(), schedule.start);
    EXPECT_GT(cache.Simulate(schedule.makespan - Nanos(1)), schedule.makespan - Nanos(1));
    EXPECT_EQ(cache.CriticalTimes(), CriticalTimesOf(whole, schedule, distances.subjects()));
    const auto& counts = whole.tasks.predecessor_count;
    most_awaited = std::max(most_awaited, *std::max_element(counts.begin(), counts.end()));
    const OpId op = graph.anchors()[random() % graph.anchors().size()];
    strategy.configs[op.index()] = other.configs[op.index()];
  }
  EXPECT_GT(most_awaited, static_cast<int32_t>(SmallLaneCounts::kMost));
}

INSTANTIATE_TEST_SUITE_P(Models, ManyDevicesTest,
                         testing::Values(ManyDevices{"lenet", "k80-16x4", 64},
                                         ManyDevices{"lenet", "minsky-32x4", 100},
                                         ManyDevices{"rnnlm_tiny", "p100-4x4", 16},
                                         ManyDevices{"resnet_tiny", "k80-16x4", 64}),
                         [](const auto& info) {
                           return std::string(info.param.model) + "On" +
                                  std::to_string(info.param.devices);
                         });

}  // namespace
}  // namespace partita

#include "graph/task/happens_before.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "graph/partition/partition.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_order.h"
#include "graph/task/vector_clocks.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

using testing::HasSubstr;
using Dependencies = std::vector<std::pair<TaskId, TaskId>>;

TEST(VectorClocksTest, AgreeWithArraysOfCounts) {
  std::mt19937_64 random(71);
  for (size_t lanes : {size_t{1}, size_t{2}, size_t{3}, size_t{64}, size_t{100}}) {
    VectorClocks clocks(lanes);
    std::vector<VectorClocks::Clock> trees = {0};
    std::vector<std::vector<int32_t>> arrays = {std::vector<int32_t>(lanes, 0)};
    for (int step = 0; step < 3000; ++step) {
      const size_t from = random() % trees.size(), other = random() % trees.size();
      std::vector<int32_t> counts = arrays[from];
      if (random() % 2 == 0) {
        const size_t lane = random() % lanes;
        counts[lane] = static_cast<int32_t>(random() % 50);
        trees.push_back(clocks.With(trees[from], lane, counts[lane]));
      } else {
        for (size_t l = 0; l < lanes; ++l) counts[l] = std::max(counts[l], arrays[other][l]);
        trees.push_back(clocks.Max(trees[from], trees[other]));
      }
      arrays.push_back(counts);
      for (size_t l = 0; l < lanes; ++l) ASSERT_EQ(clocks.At(trees.back(), l), counts[l]);
    }
  }
}

// What has ended before each task: the transitive closure of dependencies and lanes.
std::vector<std::vector<bool>> Closure(const TaskGraph& tasks, const std::vector<TaskId>& order,
                                       const Dependencies& more) {
  std::vector<std::vector<bool>> before(tasks.tasks().size(),
                                        std::vector<bool>(tasks.tasks().size(), false));
  std::vector<TaskId> last(2 * static_cast<size_t>(tasks.devices()), TaskId(-1));
  for (TaskId id : order) {
    std::vector<TaskId> waits = tasks.task(id).dependencies;
    for (const auto& [task, ended] : more) {
      if (task == id) waits.push_back(ended);
    }
    for (size_t lane : LanesOf(tasks.task(id))) {
      if (last[lane] != TaskId(-1)) waits.push_back(last[lane]);
      last[lane] = id;
    }
    for (TaskId ended : waits) {
      before[id.index()][ended.index()] = true;
      for (size_t t = 0; t < before.size(); ++t) {
        if (before[ended.index()][t]) before[id.index()][t] = true;
      }
    }
  }
  return before;
}

TEST(HappensBeforeTest, IsTheClosureOfDependenciesAndLanesOnRandomSteps) {
  std::mt19937_64 random(72);
  int64_t pairs = 0;
  for (int round = 0; round < 60; ++round) {
    const Graph graph = RandomTrainingGraph(random);
    const PartitionOptions options = RandomPartitionOptions(random);
    const TaskGraph tasks =
        Ok(Partition(graph, RandomStrategy(graph, options.devices, random), options));
    const std::vector<TaskId> order = CanonicalOrder(tasks);
    const BufferAssignment memory = AssignBuffers(tasks, order, {});
    const HappensBefore before(tasks, order, memory.added_dependencies);
    const auto wanted = Closure(tasks, order, memory.added_dependencies);
    for (TaskId a : order) {
      for (TaskId b : order) {
        if (a == b) continue;
        ASSERT_EQ(before.Before(a, b), wanted[b.index()][a.index()])
            << "round " << round << ", tasks " << a.value() << " and " << b.value();
        ++pairs;
      }
    }
    EXPECT_TRUE(RunLanes(tasks, order, memory.added_dependencies).ok());
  }
  EXPECT_GT(pairs, 100000);
}

TEST(HappensBeforeTest, LanesThatWaitForEachOtherAreNamed) {
  std::mt19937_64 random(73);
  const Graph graph = RandomTrainingGraph(random);
  const TaskGraph tasks = Ok(Partition(graph, SingleDevice(graph, DeviceId(0)), {.devices = 1}));
  const std::vector<TaskId> order = CanonicalOrder(tasks);
  const Dependencies backwards = {{order.front(), order.back()}};
  EXPECT_THAT(RunLanes(tasks, order, backwards).message(),
              HasSubstr("lanes wait for each other: device 0 compute never gets to run task"));
}

}  // namespace
}  // namespace partita

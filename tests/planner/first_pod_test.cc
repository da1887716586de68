// Fragments of the first of several alike pods, beside those of all of them.

#include "graph/partition/first_pod.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "graph/parallel/pods.h"
#include "graph/partition/fragment_cache.h"
#include "planner/space/search_space.h"
#include "planner/step_all_reduces.h"
#include "tests/planner/fixture.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

constexpr Pods kPods{4, 3};

PartitionOptions OptionsOf(int pod_devices) {
  return {.devices = kPods.devices * kPods.count, .direct_bytes = 0, .pod_devices = pod_devices};
}

// Tasks of one fragment by what they are for, but for the step, with the bytes of the first pod's
// buffers that they use.
using Uses = std::map<std::tuple<TaskKey::Phase, int32_t, int32_t>, std::vector<int64_t>>;
Uses FirstPodsUses(const TaskGraph& graph, bool is_of_tensor) {
  Uses uses;
  for (const Task& task : graph.tasks()) {
    if (DevicesOf(task).front().value() >= kPods.devices) continue;
    // Loads, fills and conversions count the demands.
    const bool has_number = task.key.phase == TaskKey::Phase::kLoad ||
                            task.key.phase == TaskKey::Phase::kFill ||
                            task.key.phase == TaskKey::Phase::kConvert;
    auto& bytes = uses[{task.key.phase, is_of_tensor ? task.key.from : 0,
                        is_of_tensor && !has_number ? task.key.to : 0}];
    for (const BufferUse& use : UsesOf(task)) {
      const Buffer& buffer = graph.buffer(use.buffer);
      if (buffer.device.value() < kPods.devices) bytes.push_back(buffer.elements());
    }
  }
  for (auto& [key, list] : uses) std::sort(list.begin(), list.end());
  return uses;
}

void ExpectOfFirstPod(const TaskGraph& graph) {
  for (const Task& task : graph.tasks()) EXPECT_LT(DevicesOf(task).front().value(), kPods.devices);
  for (const Buffer& buffer : graph.buffers()) EXPECT_LT(buffer.device.value(), kPods.devices);
}

class FirstPodTest : public testing::TestWithParam<const char*> {};

TEST_P(FirstPodTest, HasTheTasksOfAllPodsInWhichItTakesPart) {
  const Graph one = TrainingGraphOf(GetParam(), 8);
  const Graph all = TrainingGraphOf(GetParam(), 8 * kPods.count);
  const SearchSpace space(one, kPods.devices);
  FragmentCache of_all(all, OptionsOf(0), FragmentCache::Use::kPricing);
  FragmentCache of_first(all, OptionsOf(kPods.devices), FragmentCache::Use::kPricing);
  std::mt19937_64 random(3);
  int64_t tasks = 0, of_pod = 0;
  for (int round = 0; round < CasesOf(6); ++round) {
    const auto strategy = StrategyOfPods(one, all, space.RandomStrategy(random), kPods);
    ASSERT_TRUE(strategy.ok()) << strategy.status();
    StepFragments whole, first;
    ASSERT_EQ(of_all.FindOrBuild(*strategy, whole), absl::OkStatus());
    ASSERT_EQ(of_first.FindOrBuild(*strategy, first), absl::OkStatus());
    for (const ChainLink& link : of_all.chain()) {
      const TaskGraph& graph = first.FragmentOf(link).graph;
      ExpectOfFirstPod(graph);
      EXPECT_EQ(FirstPodsUses(graph, link.is_tensor),
                FirstPodsUses(whole.FragmentOf(link).graph, link.is_tensor))
          << (link.is_tensor ? all.tensor(TensorId(link.id)).name : all.op(OpId(link.id)).name);
      tasks += static_cast<int64_t>(whole.FragmentOf(link).graph.tasks().size());
      of_pod += static_cast<int64_t>(graph.tasks().size());
    }
    for (const Fragment* store : first.stores) {
      if (store != nullptr) ExpectOfFirstPod(store->graph);
    }
  }
  // What all pods do together is one task.
  EXPECT_GT(tasks, 2 * of_pod);
}

// Tasks by key, with the devices of communication.
std::map<TaskKey, std::pair<std::string, std::vector<DeviceId>>> ByKey(const TaskGraph& graph) {
  std::map<TaskKey, std::pair<std::string, std::vector<DeviceId>>> tasks;
  for (const Task& task : graph.tasks()) {
    const auto* collective = std::get_if<CollectiveTask>(&task.body);
    tasks[task.key] = {collective == nullptr ? "" : collective->algorithm, DevicesOf(task)};
  }
  return tasks;
}

// What a cache for exchanges alone leaves out is no part of them.
TEST_P(FirstPodTest, ExchangesNeedNoTasksOfOperators) {
  const Graph one = TrainingGraphOf(GetParam(), 8);
  const Graph all = TrainingGraphOf(GetParam(), 8 * kPods.count);
  const SearchSpace space(one, kPods.devices);
  FragmentCache with(all, OptionsOf(0), FragmentCache::Use::kPricing);
  FragmentCache without(all, OptionsOf(0), FragmentCache::Use::kExchanges);
  std::mt19937_64 random(4);
  const auto build = [](FragmentCache& cache, const Strategy& strategy, StepFragments& step) {
    ASSERT_TRUE(Ok(cache.Find(strategy, step)));
    for (FragmentCache::Missing& missing : cache.missing()) {
      ASSERT_EQ(cache.Build(missing, cache.Solve(missing, strategy), strategy, step),
                absl::OkStatus());
    }
  };
  size_t tasks = 0;
  for (int round = 0; round < CasesOf(4); ++round) {
    const Strategy strategy = Ok(StrategyOfPods(one, all, space.RandomStrategy(random), kPods));
    StepFragments step, exchanges;
    build(with, strategy, step);
    build(without, strategy, exchanges);
    for (const ChainLink& link : with.chain()) {
      const TaskGraph& graph = exchanges.FragmentOf(link).graph;
      if (!link.is_tensor) {
        EXPECT_TRUE(graph.tasks().empty());
        continue;
      }
      EXPECT_EQ(ByKey(graph), ByKey(step.FragmentOf(link).graph));
      tasks += graph.tasks().size();
    }
    StepAllReduces of_step(with), of_exchanges(without);
    const auto number_of = [](size_t, TaskId task) { return task.value(); };
    of_step.Find(step, strategy, number_of);
    of_exchanges.Find(exchanges, strategy, number_of);
    EXPECT_EQ(of_step.BucketsOf(Bytes(1 << 30)), of_exchanges.BucketsOf(Bytes(1 << 30)));
  }
  EXPECT_GT(tasks, 100u);
}

INSTANTIATE_TEST_SUITE_P(Models, FirstPodTest, testing::Values("lenet", "gpt_tiny", "nmt_tiny"));

}  // namespace
}  // namespace partita

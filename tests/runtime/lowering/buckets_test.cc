#include "runtime/lowering/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "absl/container/flat_hash_set.h"
#include "graph/partition/partition.h"
#include "graph/training/training_graph.h"
#include "runtime/executor/executor_setup.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

Program Lowered(const Graph& graph, const Strategy& strategy, const PartitionOptions& options) {
  PlannedStep step = ModelWriter::Get(CanonicalStep(graph, strategy, options));
  return ModelWriter::Get(Lower(std::move(step.tasks), std::move(step.order), {}));
}

// A lane's instructions in the units that start together.
std::vector<std::vector<Instruction>> UnitsOf(const std::vector<Instruction>& lane) {
  std::vector<std::vector<Instruction>> units(1);
  for (const Instruction& instruction : lane) {
    units.back().push_back(instruction);
    if (!instruction.joins_next) units.emplace_back();
  }
  EXPECT_TRUE(units.back().empty()) << "the last instruction joins nothing";
  units.pop_back();
  return units;
}

// Runs all lanes: a unit starts when those it waits for have ended and it is next in all lanes that
// have it. Returns the instructions that never ran.
size_t LeftAfterRunning(const Program& program) {
  std::vector<std::vector<std::vector<Instruction>>> lanes;
  size_t left = 0;
  for (const DeviceProgram& device : program.devices) {
    for (const auto* lane : {&device.compute, &device.communication}) {
      lanes.push_back(UnitsOf(*lane));
      left += lane->size();
    }
  }
  std::vector<size_t> next(lanes.size(), 0);
  std::vector<int> here(program.tasks.tasks().size(), 0);  // lanes that have come to a task
  absl::flat_hash_set<TaskId> ended;
  std::vector<size_t> arrived(lanes.size(), 0);  // one more than the unit that was counted
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t l = 0; l < lanes.size(); ++l) {
      if (next[l] == lanes[l].size()) continue;
      const std::vector<Instruction>& unit = lanes[l][next[l]];
      const bool ready = std::all_of(unit.begin(), unit.end(), [&](const Instruction& i) {
        return std::all_of(i.waits.begin(), i.waits.end(),
                           [&](TaskId wait) { return ended.contains(wait); });
      });
      if (ready && arrived[l] != next[l] + 1) {
        arrived[l] = next[l] + 1;
        for (const Instruction& i : unit) ++here[i.task.index()];
        moved = true;
      }
      const bool met = std::all_of(unit.begin(), unit.end(), [&](const Instruction& i) {
        return here[i.task.index()] ==
               static_cast<int>(DevicesOf(program.tasks.task(i.task)).size());
      });
      if (arrived[l] != next[l] + 1 || !met) continue;
      for (const Instruction& i : unit) ended.insert(i.task);
      left -= unit.size();
      ++next[l];
      moved = true;
    }
  }
  return left;
}

size_t CountJoined(const Program& program) {
  size_t joined = 0;
  for (const DeviceProgram& device : program.devices) {
    for (const Instruction& i : device.communication) joined += i.joins_next ? 1 : 0;
    for (const Instruction& i : device.compute) EXPECT_FALSE(i.joins_next);
  }
  return joined;
}

TEST(BucketsTest, NoLaneWaitsForItselfInRandomPrograms) {
  size_t joined = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = RandomTrainingGraph(random);
    PartitionOptions options = RandomPartitionOptions(random);
    const Strategy strategy = RandomStrategy(graph, options.devices, random);
    Program program = Lowered(graph, strategy, options);
    ASSERT_EQ(LeftAfterRunning(program), 0u) << "seed " << seed;
    BucketSmallCollectives(program, kAny);
    joined += CountJoined(program);
    ASSERT_EQ(LeftAfterRunning(program), 0u) << "seed " << seed;
  }
  EXPECT_GE(joined, 50u);
}

// The samples of a perceptron split over two devices: the gradients are summed.
TEST(BucketsTest, ASmallGradientJoinsTheNextOnAllDevices) {
  ModelWriter m("perceptron", DType::kFloat32);
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(
      m.Finish(m.Linear("fc2", m.Relu("relu", m.Linear("fc1", m.Input({8, 64}), 256)), 16)), {}));
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    ParallelConfig& config = strategy.configs[id.index()];
    const int loop = graph.rule(id).FindLoop("n");
    if (loop < 0) continue;
    config.degrees[static_cast<size_t>(loop)] = 2;
    config.devices = {DeviceId(0), DeviceId(1)};
  }
  Program program = Lowered(graph, strategy, {.devices = 2});
  Program none = program;
  BucketSmallCollectives(none, 8);
  EXPECT_EQ(CountJoined(none), 0u);
  BucketSmallCollectives(program, 4096);  // the biases' gradients, not the weights'
  EXPECT_GE(CountJoined(program), 2u);
  for (size_t k = 0; k < program.devices[0].communication.size(); ++k) {
    const Instruction& first = program.devices[0].communication[k];
    const Instruction& second = program.devices[1].communication[k];
    EXPECT_EQ(first.task, second.task);
    EXPECT_EQ(first.joins_next, second.joins_next);
    if (!first.joins_next) continue;
    const auto& task = std::get<CollectiveTask>(program.tasks.task(first.task).body);
    EXPECT_LE(task.collective.total * SizeOf(task.dtype), 4096);
  }
}

}  // namespace
}  // namespace partita

#include "graph/task/buffer_assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "graph/partition/partition.h"
#include "graph/task/task_order.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

struct RandomStep {
  BufferUses uses;
  std::vector<TaskId> order;
};

RandomStep MakeRandomStep(std::mt19937_64& random) {
  const Graph graph = RandomTrainingGraph(random);
  const PartitionOptions options = RandomPartitionOptions(random);
  const TaskGraph tasks =
      Ok(Partition(graph, RandomStrategy(graph, options.devices, random), options));
  return {FindBufferUses(tasks, {}), CanonicalOrder(tasks)};
}

using Waits = std::set<std::pair<TaskId, TaskId>>;

// The waits for memory by their definition: who had some of a buffer's bytes last is looked up byte by
// byte, in units of the least alignment.
class SlowWaits {
 public:
  SlowWaits(const RandomStep& step, const BufferAssignment& memory)
      : uses_(step.uses), order_(step.order), memory_(memory) {}

  Waits Find() {
    FindUses();
    std::map<std::pair<DeviceId, int64_t>, BufferId> owner;  // of a unit of memory
    std::map<std::pair<TaskId, DeviceId>, int32_t> last;     // place in the order
    for (BufferId id : by_first_) {
      const BufferUses::BufferFacts& buffer = uses_.buffers[id.index()];
      const int64_t begin = memory_.offset[id.index()];
      const auto writer = first_writer_.find(id);
      if (buffer.persistent || buffer.bytes == 0 || begin < 0 || writer == first_writer_.end())
        continue;
      for (int64_t unit = begin / kUnit; unit * kUnit < begin + buffer.bytes; ++unit) {
        const auto [it, is_new] = owner.try_emplace({buffer.device, unit}, id);
        if (is_new) continue;
        const BufferId before = std::exchange(it->second, id);
        const uint8_t other = 1 - uses_.is_communication[writer->second.index()];
        const auto user = last_user_.find({before, other});
        if (before == id || user == last_user_.end()) continue;
        int32_t& place = last.try_emplace({writer->second, buffer.device}, -1).first->second;
        place = std::max(place, user->second);
      }
    }
    Waits waits;
    for (const auto& [wait, place] : last) {
      waits.emplace(wait.first, order_[static_cast<size_t>(place)]);
    }
    return waits;
  }

 private:
  static constexpr int64_t kUnit = 4;  // bytes of the smallest element: buffers share no unit

  void FindUses() {
    std::set<BufferId> met;
    for (size_t place = 0; place < order_.size(); ++place) {
      const TaskId task = order_[place];
      for (const BufferUse& use : uses_.UsesOf(task.index())) {
        if (met.insert(use.buffer).second) by_first_.push_back(use.buffer);
        last_user_[{use.buffer, uses_.is_communication[task.index()]}] =
            static_cast<int32_t>(place);
        if (use.writes) first_writer_.try_emplace(use.buffer, task);
      }
    }
  }

  const BufferUses& uses_;
  const std::vector<TaskId>& order_;
  const BufferAssignment& memory_;
  std::vector<BufferId> by_first_;
  std::map<BufferId, TaskId> first_writer_;
  std::map<std::pair<BufferId, uint8_t>, int32_t> last_user_;  // by lane: place in the order
};

TEST(BufferAssignmentTest, WaitsAreForThoseWhoHadTheMemoryLast) {
  std::mt19937_64 random(76);
  size_t waits = 0;
  for (int round = 0; round < 60; ++round) {
    const RandomStep step = MakeRandomStep(random);
    const BufferAssignment memory = AssignBuffers(step.uses, step.order);
    const Waits found(memory.added_dependencies.begin(), memory.added_dependencies.end());
    EXPECT_EQ(found, SlowWaits(step, memory).Find()) << "round " << round;
    waits += found.size();
  }
  EXPECT_GT(waits, 100);
}

TEST(BufferAssignmentTest, PeaksAreThoseOfTheAssignment) {
  std::mt19937_64 random(77);
  for (int round = 0; round < 60; ++round) {
    const RandomStep step = MakeRandomStep(random);
    const BufferAssignment memory = AssignBuffers(step.uses, step.order);
    const std::vector<Bytes> peaks = PeaksOf(step.uses, step.order);
    ASSERT_EQ(peaks.size(), static_cast<size_t>(step.uses.devices));
    for (int d = 0; d < step.uses.devices; ++d) {
      EXPECT_EQ(peaks[static_cast<size_t>(d)], memory.peak(DeviceId(d))) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace partita

#include "planner/contention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita {
namespace {

using testing::Each;
using testing::ElementsAre;

// As many nodes of one device as there are lists of cores, a load on each.
class ContentionTest : public ::testing::Test {
 protected:
  // What loads of 100 ns beside busy neighbours, 60 ns beside idle ones, take.
  static std::vector<int64_t> Durations(const std::vector<std::vector<int>>& cores,
                                        const std::string& host, bool one_node = false) {
    std::vector<Device> devices;
    Link net{.name = "net", .bytes_per_second = 1'000'000'000, .shared = true};
    for (size_t d = 0; d < cores.size(); ++d) {
      devices.push_back({.name = "cpu" + std::to_string(d),
                         .node = one_node ? 0 : static_cast<int>(d),
                         .memory = Bytes(1 << 30),
                         .cores = cores[d],
                         .host = host});
      net.ends.push_back(devices.back().name);
    }
    const SimulatedResources resources(DeviceTopology::Create(devices, {net}).value());
    TaskGraphBuilder builder(static_cast<int>(cores.size()));
    for (int d = 0; d < static_cast<int>(cores.size()); ++d) {
      const BufferId buffer = builder.AddStaging(DeviceId(d), DType::kFloat32, 4);
      builder.AddTask({true, 2, 0, TaskKey::Phase::kLoad, d, 0}, LoadTask{DeviceId(d), buffer});
    }
    const FlatTasks flat = Flatten(std::move(builder).Build(), resources);
    const std::vector<TaskCost> costs(cores.size(), {.time = Nanos(100), .uncontended = Nanos(60)});
    const std::vector<Nanos> busy(cores.size(), Nanos(100));
    std::vector<int64_t> durations;
    for (Nanos d : ContendedDurations(flat, resources, costs, busy, Simulate(flat, busy))) {
      durations.push_back(d.value());
    }
    return durations;
  }
};

TEST_F(ContentionTest, DevicesOfANodeSlowEachOtherDown) {
  EXPECT_THAT(Durations({{0}, {1}}, "", true), Each(100));
}

TEST_F(ContentionTest, NodesOfTheirOwnDoNot) { EXPECT_THAT(Durations({{0}, {1}}, ""), Each(60)); }

TEST_F(ContentionTest, NodesOfOneHostDo) { EXPECT_THAT(Durations({{0}, {1}}, "box"), Each(100)); }

// The other core is busy all the time, by one device after the other.
TEST_F(ContentionTest, DevicesThatTakeTurnsOnACoreCountAsOne) {
  EXPECT_THAT(Durations({{0}, {1}, {0}, {1}}, "box"), Each(100));
  EXPECT_THAT(Durations({{0}, {0}}, "box"), Each(60));
  EXPECT_THAT(Durations({{0}, {1}, {0}}, "box"), ElementsAre(100, 100, 60));
}

}  // namespace
}  // namespace partita

#include "planner/simulator/flat_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "planner/loads.h"

namespace partita {
namespace {

using testing::ElementsAre;

Device Cpu(std::string name, std::vector<int> cores, int node = 0) {
  return {
      .name = std::move(name), .node = node, .memory = Bytes(1 << 30), .cores = std::move(cores)};
}

Device Gpu(std::string name) {
  return {.name = std::move(name),
          .kind = DeviceKind::kGpu,
          .device_class = "gpu",
          .memory = Bytes(1 << 30)};
}

Link Wire(std::string name, std::vector<std::string> ends, bool shared = false) {
  return {.name = std::move(name),
          .ends = std::move(ends),
          .bytes_per_second = 1000000000,
          .latency = Nanos(1000),
          .shared = shared};
}

std::set<std::string> HeldBy(const FlatTasks& flat, const SimulatedResources& resources,
                             TaskId task) {
  std::set<std::string> names;
  for (int32_t r : flat.ResourcesOf(task.index())) names.insert(resources.name(r));
  return names;
}

TaskId AddAllReduce(TaskGraphBuilder& builder, std::vector<DeviceId> group) {
  CollectiveTask task{group, MakeAllReduce(static_cast<int>(group.size()), 8), "ring"};
  for (DeviceId device : group) {
    const decltype(Transfer::send) slice{builder.AddStaging(device, DType::kFloat32, 8), 0, 8};
    task.send.push_back(slice);
    task.receive.push_back(slice);
  }
  return builder.AddTask({true, 0, 0, TaskKey::Phase::kSend, group[0].value(), 0}, task);
}

TaskId AddTransfer(TaskGraphBuilder& builder, DeviceId from, DeviceId to) {
  const decltype(Transfer::send) send{builder.AddStaging(from, DType::kFloat32, 8), 0, 8};
  const decltype(Transfer::send) receive{builder.AddStaging(to, DType::kFloat32, 8), 0, 8};
  return builder.AddTask(
      {true, 1, 0, TaskKey::Phase::kSend, from.value(), to.value()},
      TransferTask{
          DType::kFloat32, {std::min(from, to), std::max(from, to)}, {{from, to, send, receive}}});
}

TaskId AddLoad(TaskGraphBuilder& builder, DeviceId device) {
  const BufferId buffer = builder.AddStaging(device, DType::kFloat32, 4);
  return builder.AddTask({true, 2, 0, TaskKey::Phase::kLoad, device.value(), 0},
                         LoadTask{device, buffer});
}

TEST(StagingTest, HoldsMoreElementsThanABoxCouldSay) {
  constexpr int64_t kMany = int64_t{1} << 33;
  TaskGraphBuilder builder(1);
  const BufferId buffer = builder.AddStaging(DeviceId(0), DType::kFloat32, kMany);
  const Slice more = builder.ExtendStaging(buffer, 5);
  EXPECT_GE(more.offset, kMany);
  EXPECT_EQ(builder.buffer(buffer).elements(), more.offset + 5);
  EXPECT_EQ(builder.buffer(buffer).shape(), Shape{more.offset + 5});
  EXPECT_EQ(BoxText(builder.buffer(buffer)), absl::StrCat("[0:", more.offset + 5, "]"));
}

TEST(FlatTasksTest, DevicesThatShareCoresShareThemAsOneResource) {
  const auto topology = DeviceTopology::Create(
      {Cpu("a", {0, 1, 2}), Cpu("b", {2, 3}), Cpu("c", {4})}, {Wire("bus", {"a", "b", "c"}, true)});
  ASSERT_TRUE(topology.ok()) << topology.status();
  const SimulatedResources resources(*topology);
  TaskGraphBuilder builder(3);
  const TaskId a = AddLoad(builder, DeviceId(0)), b = AddLoad(builder, DeviceId(1));
  const TaskId c = AddLoad(builder, DeviceId(2));
  const FlatTasks flat = Flatten(std::move(builder).Build(), resources);
  EXPECT_THAT(HeldBy(flat, resources, a),
              ElementsAre("a compute", "node 0 cores 0,1", "node 0 cores 2"));
  EXPECT_THAT(HeldBy(flat, resources, b),
              ElementsAre("b compute", "node 0 cores 2", "node 0 cores 3"));
  EXPECT_THAT(HeldBy(flat, resources, c), ElementsAre("c compute", "node 0 cores 4"));
}

TEST(FlatTasksTest, NodesOfOneHostShareItsCores) {
  Device a = Cpu("a", {0}), b = Cpu("b", {0}, 1), c = Cpu("c", {0}, 2);
  a.host = b.host = "box";
  const auto topology = DeviceTopology::Create({a, b, c}, {Wire("net", {"a", "b", "c"}, true)});
  ASSERT_TRUE(topology.ok()) << topology.status();
  const SimulatedResources resources(*topology);
  TaskGraphBuilder builder(3);
  const TaskId of_a = AddLoad(builder, DeviceId(0)), of_b = AddLoad(builder, DeviceId(1));
  const TaskId of_c = AddLoad(builder, DeviceId(2));
  const FlatTasks flat = Flatten(std::move(builder).Build(), resources);
  EXPECT_THAT(HeldBy(flat, resources, of_a), ElementsAre("a compute", "box cores 0"));
  EXPECT_THAT(HeldBy(flat, resources, of_b), ElementsAre("b compute", "box cores 0"));
  EXPECT_THAT(HeldBy(flat, resources, of_c), ElementsAre("c compute", "node 2 cores 0"));
}

TEST(FlatTasksTest, CopiesWithinANodeHoldItsCoresAndTrafficBetweenNodesDoesNot) {
  const auto topology = DeviceTopology::Create(
      {Cpu("a", {0}), Cpu("b", {1}), Cpu("c", {0}, 1)},
      {Wire("bus", {"a", "b", "host"}, true), Wire("net", {"a", "c"}), Wire("net2", {"b", "c"})});
  ASSERT_TRUE(topology.ok()) << topology.status();
  const SimulatedResources resources(*topology);
  TaskGraphBuilder builder(3);
  const TaskId within = AddTransfer(builder, DeviceId(0), DeviceId(1));
  const TaskId between = AddTransfer(builder, DeviceId(2), DeviceId(0));
  const FlatTasks flat = Flatten(std::move(builder).Build(), resources);
  EXPECT_THAT(
      HeldBy(flat, resources, within),
      ElementsAre("a communication", "b communication", "bus", "node 0 cores 0", "node 0 cores 1"));
  EXPECT_THAT(HeldBy(flat, resources, between), ElementsAre("a communication", "c communication"));
}

// Channels at a device are free whenever its communication lane is.
TEST(FlatTasksTest, CollectivesHoldTheChannelsBetweenTheirMembers) {
  const auto topology = DeviceTopology::Create(
      {Gpu("g0"), Gpu("g1"), Gpu("g2")},
      {Wire("l0", {"g0", "s0"}), Wire("l1", {"g1", "s0"}), Wire("l2", {"g2", "s2"}),
       Wire("t0", {"s0", "spine"}), Wire("t2", {"s2", "spine"})});
  ASSERT_TRUE(topology.ok()) << topology.status();
  const SimulatedResources resources(*topology);
  TaskGraphBuilder builder(3);
  const TaskId pair = AddAllReduce(builder, {DeviceId(0), DeviceId(2)});
  const TaskId load = AddLoad(builder, DeviceId(1));
  const FlatTasks flat = Flatten(std::move(builder).Build(), resources);
  EXPECT_THAT(HeldBy(flat, resources, pair),
              ElementsAre("g0 communication", "g2 communication", "t0<", "t0>", "t2<", "t2>"));
  EXPECT_THAT(HeldBy(flat, resources, load), ElementsAre("g1 compute"));
}

// Few ranks and many are looked up in two ways.
TEST(FlatTasksTest, CollectivesHoldLanesAndChannelsHoweverManyTheirRanks) {
  constexpr int kDevices = 12, kOnSwitch = 4;
  std::vector<Device> devices;
  std::vector<Link> links;
  for (int d = 0; d < kDevices; ++d) {
    const std::string number = std::to_string(d);
    devices.push_back(Gpu("gpu" + number));
    links.push_back(
        Wire("up" + number, {"gpu" + number, "switch" + std::to_string(d / kOnSwitch)}));
  }
  for (int s = 0; s < kDevices / kOnSwitch; ++s) {
    links.push_back(Wire("trunk" + std::to_string(s), {"switch" + std::to_string(s), "spine"}));
  }
  const auto topology = DeviceTopology::Create(devices, links);
  ASSERT_TRUE(topology.ok()) << topology.status();
  const SimulatedResources resources(*topology);
  for (int stride : {1, 5, 7}) {
    for (int ranks = 2; ranks <= kDevices; ++ranks) {
      std::vector<DeviceId> group;
      for (int r = 0; r < ranks; ++r) group.push_back(DeviceId(r * stride % kDevices));
      std::sort(group.begin(), group.end());
      std::set<std::string> wanted;
      for (DeviceId device : group)
        wanted.insert(resources.name(resources.CommunicationLane(device)));
      for (ChannelId channel : topology->ChannelsBetween(group)) {
        const int32_t resource = resources.ChannelResource(channel);
        EXPECT_EQ(resource < 0, topology->channel(channel).at_device);
        if (resource >= 0) wanted.insert(resources.name(resource));
      }
      TaskGraphBuilder builder(kDevices);
      const TaskId task = AddAllReduce(builder, group);
      const FlatTasks flat = Flatten(std::move(builder).Build(), resources);
      EXPECT_EQ(HeldBy(flat, resources, task), wanted) << ranks << " ranks, stride " << stride;
      EXPECT_EQ(flat.ResourcesOf(task.index()).size(), wanted.size());
    }
  }
}

TEST(FlatTasksTest, KeyOrderIgnoresTheOrderOfMaking) {
  const DeviceTopology topology = VirtualCpuDevices(4);
  const SimulatedResources resources(topology);
  TaskGraphBuilder builder(4);
  const TaskId late = AddTransfer(builder, DeviceId(2), DeviceId(3));
  const TaskId load = AddLoad(builder, DeviceId(0));
  const TaskId early = AddTransfer(builder, DeviceId(0), DeviceId(1));
  const TaskId first = AddAllReduce(builder, {DeviceId(0), DeviceId(1)});
  const FlatTasks flat = Flatten(std::move(builder).Build(), resources);
  EXPECT_THAT(flat.by_key, ElementsAre(first.value(), early.value(), late.value(), load.value()));
}

TEST(LoadSumsTest, TakesWhatWasAddedSince) {
  LoadSums sums(4);
  sums.Add(3, 5);
  sums.Add(1, 2);
  sums.Add(2, 0);
  sums.Add(3, 1);
  EXPECT_EQ(sums.Take(), (Loads{{3, 6}, {1, 2}}));
  EXPECT_EQ(sums.Take(), Loads());
  sums.Add(1, 7);
  EXPECT_EQ(sums.Take(), (Loads{{1, 7}}));
}

}  // namespace
}  // namespace partita

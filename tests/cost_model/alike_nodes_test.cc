#include "graph/parallel/alike_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cost_model/link_cost.h"
#include "graph/collective/algorithms.h"
#include "tests/cost_model/made_topologies.h"

namespace partita {
namespace {

using ::testing::ElementsAre;

// Nodes of GPUs, each of which has a link to its node's switch, and a network.
struct Cluster {
  int nodes = 4, of_node = 3;
  std::vector<Device> devices;
  std::vector<Link> links;

  static Link Wire(std::string name, std::string a, std::string b) {
    return {.name = std::move(name),
            .ends = {std::move(a), std::move(b)},
            .bytes_per_second = 1'000'000'000,
            .latency = Nanos(100)};
  }
  // Those of one node are not neighbours.
  Cluster() {
    for (int d = 0; d < nodes * of_node; ++d) {
      devices.push_back(Gpu(d));
      devices.back().node = d % nodes;
      devices.back().device_class = d / nodes == 0 ? "first" : "other";
      links.push_back(Wire(absl::StrCat("port", d), devices.back().name, SwitchOf(d % nodes)));
      if (d / nodes == 0) links.back().bytes_per_second *= 2;
    }
  }
  static std::string SwitchOf(int node) { return absl::StrCat("s", node); }
  // All nodes at one switch.
  void AddStar() {
    for (int n = 0; n < nodes; ++n) {
      links.push_back(Wire(absl::StrCat("up", n), SwitchOf(n), "core"));
      links.back().latency = Nanos(1000);
    }
  }
  DeviceTopology Create() const { return DeviceTopology::Create(devices, links).value(); }
};

std::vector<DeviceId> EqualsOf(const DeviceTopology& topology) {
  std::vector<DeviceId> equal;
  for (const Device& device : topology.devices()) {
    const auto first =
        std::find_if(topology.devices().begin(), topology.devices().end(),
                     [&](const Device& d) { return d.device_class == device.device_class; });
    equal.push_back(DeviceId(static_cast<int>(first - topology.devices().begin())));
  }
  return equal;
}

bool AreAlikeIn(const Cluster& cluster) {
  const DeviceTopology topology = cluster.Create();
  return AlikeNodes::Of(topology, EqualsOf(topology)).has_value();
}

TEST(AlikeNodesTest, AGroupIsInTheFirstNodesInItsOrder) {
  Cluster cluster;
  cluster.AddStar();
  const DeviceTopology topology = cluster.Create();
  const auto nodes = AlikeNodes::Of(topology, EqualsOf(topology));
  ASSERT_TRUE(nodes.has_value());
  std::vector<DeviceId> renumbered;
  // Of node 2 the second, of node 1 the first, of node 2 the third device.
  nodes->Renumber(std::vector<DeviceId>{DeviceId(6), DeviceId(1), DeviceId(10)}, renumbered);
  EXPECT_THAT(renumbered, ElementsAre(DeviceId(4), DeviceId(1), DeviceId(8)));
}

TEST(AlikeNodesTest, CollectivesTakeAsLongInAnyNodes) {
  Cluster cluster;
  cluster.AddStar();
  const auto machine = std::make_shared<const Machine>(
      Machine{.name = "made",
              .topology = cluster.Create(),
              .classes = {{.name = "first", .copy = {100, 1e9}, .add = {70, 3e8}},
                          {.name = "other", .copy = {200, 2e9}, .add = {10, 1e8}}}});
  const LinkCost cost(machine);
  const auto nodes = AlikeNodes::Of(machine->topology, EqualsOf(machine->topology));
  ASSERT_TRUE(nodes.has_value());
  std::mt19937 random(1);
  std::vector<DeviceId> all, renumbered;
  for (int d = 0; d < machine->topology.size(); ++d) all.push_back(DeviceId(d));
  int moved = 0;
  for (int round = 0; round < 300; ++round) {
    std::shuffle(all.begin(), all.end(), random);
    const std::vector<DeviceId> group(all.begin(), all.begin() + 2 + round % 10);
    nodes->Renumber(group, renumbered);
    moved += renumbered != group ? 1 : 0;
    const auto ranks = static_cast<int>(group.size());
    const Collective collective =
        round % 2 == 0 ? MakeAllReduce(ranks, 1000 + 37 * round)
                       : MakeAllGather(std::vector<int64_t>(group.size(), 100 + round));
    for (const char* algorithm : {"ring", "direct"}) {
      const auto asked = cost.CollectiveCost({&collective, algorithm, group, DType::kFloat32});
      const auto other = cost.CollectiveCost({&collective, algorithm, renumbered, DType::kFloat32});
      ASSERT_TRUE(asked.has_value() && other.has_value());
      EXPECT_EQ(asked->time, other->time) << algorithm << " round " << round;
    }
  }
  EXPECT_GT(moved, 200);
}

TEST(AlikeNodesTest, NodesAreNotAlikeWhereTheNetworkOrTheirDevicesTellThemApart) {
  Cluster star;
  star.AddStar();
  EXPECT_TRUE(AreAlikeIn(star));

  Cluster ring;  // nodes have neighbours
  for (int n = 0; n < ring.nodes; ++n) {
    ring.links.push_back(Cluster::Wire(absl::StrCat("up", n), Cluster::SwitchOf(n),
                                       Cluster::SwitchOf((n + 1) % ring.nodes)));
  }
  EXPECT_FALSE(AreAlikeIn(ring));

  Cluster slow = star;  // the last node's link
  slow.links.back().bytes_per_second /= 2;
  EXPECT_FALSE(AreAlikeIn(slow));

  Cluster late = star;
  late.links.back().latency += Nanos(1);
  EXPECT_FALSE(AreAlikeIn(late));

  Cluster racks;  // two by two
  for (int n = 0; n < racks.nodes; ++n) {
    racks.links.push_back(
        Cluster::Wire(absl::StrCat("up", n), Cluster::SwitchOf(n), absl::StrCat("rack", n / 2)));
  }
  racks.links.push_back(Cluster::Wire("between", "rack0", "rack1"));
  EXPECT_FALSE(AreAlikeIn(racks));

  Cluster mixed = star;
  std::swap(mixed.devices[3].device_class, mixed.devices[7].device_class);
  EXPECT_FALSE(AreAlikeIn(mixed));

  Cluster hosts = star;
  for (Device& device : hosts.devices) device.host = absl::StrCat("host", device.node / 2);
  EXPECT_FALSE(AreAlikeIn(hosts));

  Cluster one = star;
  for (Device& device : one.devices) device.node = 0;
  EXPECT_FALSE(AreAlikeIn(one));
}

}  // namespace
}  // namespace partita

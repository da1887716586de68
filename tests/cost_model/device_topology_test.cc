#include "graph/parallel/device_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/parallel/topology_io.h"

namespace partita {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Device NamedGpu(std::string name, int node) {
  return {.name = std::move(name),
          .kind = DeviceKind::kGpu,
          .device_class = "gpu",
          .node = node,
          .memory = Bytes(1 << 30)};
}

// a-b wired directly (slow), both also through switch s (fast); c behind switch t.
std::vector<Link> Wires() {
  return {{.name = "ab", .ends = {"a", "b"}, .bytes_per_second = 1'000'000, .latency = Nanos(5)},
          {.name = "as", .ends = {"a", "s"}, .bytes_per_second = 100'000'000, .latency = Nanos(7)},
          {.name = "sb", .ends = {"s", "b"}, .bytes_per_second = 50'000'000, .latency = Nanos(9)},
          {.name = "st", .ends = {"s", "t"}, .bytes_per_second = 10'000'000, .latency = Nanos(11)},
          {.name = "tc", .ends = {"t", "c"}, .bytes_per_second = 90'000'000, .latency = Nanos(1)}};
}

DeviceTopology Wired() {
  return DeviceTopology::Create({NamedGpu("a", 0), NamedGpu("b", 0), NamedGpu("c", 1)}, Wires())
      .value();
}

std::vector<std::string> RouteNames(const DeviceTopology& topology, int from, int to) {
  std::vector<std::string> names;
  for (ChannelId id : topology.Route(DeviceId(from), DeviceId(to))) {
    names.push_back(topology.channel(id).name);
  }
  return names;
}

TEST(DeviceTopologyTest, RoutesTakeTheFastestWay) {
  const DeviceTopology topology = Wired();
  EXPECT_EQ(RouteNames(topology, 0, 1), (std::vector<std::string>{"as>", "sb>"}));
  EXPECT_EQ(RouteNames(topology, 1, 0), (std::vector<std::string>{"sb<", "as<"}));
  EXPECT_EQ(RouteNames(topology, 2, 0), (std::vector<std::string>{"tc<", "st<", "as<"}));
  EXPECT_THAT(RouteNames(topology, 1, 1), SizeIs(0));
  EXPECT_EQ(topology.RouteLatency(DeviceId(0), DeviceId(1)), Nanos(16));
  EXPECT_EQ(topology.RouteBytesPerSecond(DeviceId(0), DeviceId(2)), 10'000'000);
}

TEST(DeviceTopologyTest, DevicesDoNotForward) {
  const auto topology =
      DeviceTopology::Create({NamedGpu("a", 0), NamedGpu("b", 0), NamedGpu("c", 0)},
                             {{.name = "ab", .ends = {"a", "b"}, .bytes_per_second = 1},
                              {.name = "bc", .ends = {"b", "c"}, .bytes_per_second = 1}});
  EXPECT_EQ(topology.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(topology.status().message()), HasSubstr("'a' to device 'c'"));
}

TEST(DeviceTopologyTest, SharedMediumIsOneChannelForAll) {
  const DeviceTopology topology = VirtualCpuDevices(4);
  EXPECT_THAT(topology.channels(), SizeIs(1));
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      EXPECT_THAT(topology.Route(DeviceId(a), DeviceId(b)), SizeIs(a == b ? 0 : 1));
    }
  }
}

TEST(DeviceTopologyTest, CoresAreSharedOnlyWithinANode) {
  Device a{.name = "a", .node = 0, .memory = Bytes(1), .cores = {0, 1}};
  Device b{.name = "b", .node = 0, .memory = Bytes(1), .cores = {1}};
  Device c{.name = "c", .node = 1, .memory = Bytes(1), .cores = {1}};
  const DeviceTopology topology =
      DeviceTopology::Create(
          {a, b, c},
          {{.name = "n", .ends = {"a", "b", "c"}, .bytes_per_second = 1, .shared = true}})
          .value();
  EXPECT_TRUE(topology.ShareCore(DeviceId(0), DeviceId(1)));
  EXPECT_FALSE(topology.ShareCore(DeviceId(1), DeviceId(2)));
}

// Four nodes, two cores: virtual machines of one computer.
DeviceTopology FourNodesOnTwoCores(const std::string& host) {
  std::vector<Device> devices;
  Link net{.name = "net", .bytes_per_second = 1, .shared = true};
  for (int n = 0; n < 4; ++n) {
    devices.push_back({.name = std::string(1, static_cast<char>('a' + n)),
                       .node = n,
                       .memory = Bytes(1),
                       .cores = {n % 2},
                       .host = host});
    net.ends.push_back(devices.back().name);
  }
  return DeviceTopology::Create(std::move(devices), {net}).value();
}

TEST(DeviceTopologyTest, NodesThatNameOneHostShareItsCores) {
  const DeviceTopology shared = FourNodesOnTwoCores("box"), apart = FourNodesOnTwoCores("");
  EXPECT_TRUE(shared.ShareHost(DeviceId(0), DeviceId(1)));
  EXPECT_TRUE(shared.ShareCore(DeviceId(0), DeviceId(2)));
  EXPECT_FALSE(shared.ShareCore(DeviceId(0), DeviceId(1)));
  EXPECT_FALSE(apart.ShareHost(DeviceId(0), DeviceId(2)));
  EXPECT_FALSE(apart.ShareCore(DeviceId(0), DeviceId(2)));
  EXPECT_NE(shared.fingerprint(), apart.fingerprint());
  EXPECT_EQ(TopologyFromProto(TopologyToProto(shared)).value(), shared);
}

TEST(DeviceTopologyTest, AsManyDevicesWorkAtOnceAsThereAreCoresForThem) {
  EXPECT_EQ(FourNodesOnTwoCores("box").AtOnce(DeviceId(3)),
            (std::vector<DeviceId>{DeviceId(0), DeviceId(1)}));
  EXPECT_EQ(FourNodesOnTwoCores("").AtOnce(DeviceId(3)), (std::vector<DeviceId>{DeviceId(3)}));
  EXPECT_THAT(VirtualCpuDevices(3).AtOnce(DeviceId(1)), SizeIs(3));
}

TEST(DeviceTopologyTest, TakingDevicesDropsTheirWires) {
  const DeviceTopology two = Wired().TakeDevices(2).value();
  EXPECT_EQ(two.size(), 2);
  EXPECT_THAT(two.links(), SizeIs(4));
  EXPECT_EQ(RouteNames(two, 0, 1), (std::vector<std::string>{"as>", "sb>"}));
  EXPECT_EQ(VirtualCpuDevices(4).TakeDevices(4).value(), VirtualCpuDevices(4));
  EXPECT_EQ(VirtualCpuDevices(4).TakeDevices(1).value().channels().size(), 0u);
  EXPECT_EQ(VirtualCpuDevices(4).TakeDevices(5).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DeviceTopologyTest, MessageRoundTripsExactly) {
  const DeviceTopology topology = Wired();
  const DeviceTopology again = TopologyFromProto(TopologyToProto(topology)).value();
  EXPECT_EQ(again, topology);
  EXPECT_EQ(again.fingerprint(), topology.fingerprint());
  EXPECT_NE(topology.TakeDevices(2).value().fingerprint(), topology.fingerprint());
}

struct BadCase {
  std::string said;
  std::function<void(std::vector<Device>&, std::vector<Link>&)> spoil;
};

TEST(DeviceTopologyTest, ErrorsNameTheFault) {
  const BadCase cases[] = {
      {"0 devices", [](auto& d, auto&) { d.clear(); }},
      {"'a' is there twice", [](auto& d, auto&) { d[1].name = "a"; }},
      {"0 bytes of memory", [](auto& d, auto&) { d[1].memory = Bytes(0); }},
      {"core 3", [](auto& d, auto&) { d[1].cores = {3, 3}; }},
      {"0 threads", [](auto& d, auto&) { d[0].threads = 0; }},
      {"on host 'box' and device 'a'", [](auto& d, auto&) { d[1].host = "box"; }},
      {"'as' has 1 ends", [](auto&, auto& l) { l[1].ends.pop_back(); }},
      {"'as' has 3 ends", [](auto&, auto& l) { l[1].ends.push_back("q"); }},
      {"'sb' has 0 bytes/s", [](auto&, auto& l) { l[2].bytes_per_second = 0; }},
      {"latency of -1", [](auto&, auto& l) { l[2].latency = Nanos(-1); }},
      {"'ab' is there twice", [](auto&, auto& l) { l[2].name = "ab"; }},
      {"'s' twice", [](auto&, auto& l) { l[3].ends = {"s", "s"}; }},
  };
  for (const BadCase& bad : cases) {
    std::vector<Device> devices = {NamedGpu("a", 0), NamedGpu("b", 0), NamedGpu("c", 1)};
    std::vector<Link> links = Wires();
    bad.spoil(devices, links);
    const auto topology = DeviceTopology::Create(devices, links);
    EXPECT_EQ(topology.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(topology.status().message()), HasSubstr(bad.said));
  }
}

}  // namespace
}  // namespace partita

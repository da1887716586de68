#include "graph/parallel/level_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "graph/parallel/channel_loads.h"
#include "graph/parallel/routes.h"
#include "graph/parallel/topology_io.h"
#include "tests/cost_model/made_topologies.h"

namespace partita {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TopologyLevel LevelOf(std::string name, int count, LevelNetwork network, int64_t megabytes) {
  return {.name = std::move(name),
          .count = count,
          .network = network,
          .bytes_per_second = megabytes * 1'000'000,
          .latency = Nanos(10)};
}

TopologyLevels LevelsOf(int devices, std::vector<TopologyLevel> levels) {
  Device gpu = Gpu(0);
  gpu.name = "gpu";
  return {.devices = {{gpu, devices}}, .levels = std::move(levels)};
}

// Nodes of 8 with a network card for each device and a switch of their own, rails over 32 nodes, a
// spine.
TopologyLevels Rails(int devices) {
  std::vector<TopologyLevel> levels = {
      LevelOf("nic", 1, LevelNetwork::kTree, 50'000),
      LevelOf("nvswitch", 8, LevelNetwork::kCrossbar, 450'000),
      LevelOf("leaf", 32, LevelNetwork::kTree, 50'000),
      LevelOf("spine", (devices + 255) / 256, LevelNetwork::kTree, 800'000)};
  levels[1].is_node = true;
  levels[2].rails = 8;
  return LevelsOf(devices, std::move(levels));
}

// Levels of random sizes, the faster the farther inside; the last group may lack devices.
TopologyLevels RandomLevels(std::mt19937& random) {
  const auto below = [&random](unsigned bound) { return static_cast<int>(random() % bound); };
  std::vector<TopologyLevel> levels;
  const int depth = 1 + below(4);
  int size = 1, tree_size = 1, rails = 1;
  int64_t speed = 10'000'000;  // the longest way around tori is faster than a step farther out
  bool encloses = false;
  for (int k = 0; k < depth; ++k) {
    const int count = 1 + below(4);
    size *= count;
    auto network = static_cast<LevelNetwork>(below(5));
    if (network == LevelNetwork::kTorus && encloses) network = LevelNetwork::kTree;
    TopologyLevel level = LevelOf(absl::StrCat("level", std::string(1, static_cast<char>('a' + k))),
                                  count, network, network == LevelNetwork::kTree ? 1 : speed);
    if (network == LevelNetwork::kTree) {
      level.rails = 1 + below(static_cast<unsigned>(std::min(3, rails * (size / tree_size))));
      tree_size = size;
      rails = level.rails;
    } else if (network == LevelNetwork::kTorus) {
      level.extents = {size};
      if (size % 4 == 0) level.extents = {2, size / 4, 2};
      if (size % 9 == 0) level.extents = {size / 9, 3, 3};
      if (size % 12 == 0 && below(2) == 0) level.extents = {3, size / 3};
    }
    encloses |= network != LevelNetwork::kNone && network != LevelNetwork::kTree;
    speed /= 100;
    levels.push_back(std::move(level));
  }
  levels.push_back(LevelOf("top", 3, LevelNetwork::kTree, 1));
  size *= 3;
  levels[static_cast<size_t>(below(static_cast<unsigned>(depth)))].is_node = true;
  return LevelsOf(std::max(1, size - below(static_cast<unsigned>(std::min(size, 5)))),
                  std::move(levels));
}

std::vector<DeviceId> AllOf(const DeviceTopology& topology) {
  std::vector<DeviceId> all;
  for (int d = 0; d < topology.size(); ++d) all.push_back(DeviceId(d));
  return all;
}

// What routes are compared by: time for 1 MiB, then links.
std::pair<int64_t, size_t> LengthOf(const DeviceTopology& topology, const RouteChannels& route) {
  int64_t nanos = 0;
  for (ChannelId id : route) {
    const Channel& channel = topology.channel(id);
    nanos += channel.latency.value() +
             static_cast<int64_t>(1e9 * (1 << 20) / static_cast<double>(channel.bytes_per_second));
  }
  return {nanos, route.size()};
}

// The vertices that a route passes, and that its channels lead from one to the next.
void CheckIsWay(const DeviceTopology& topology, DeviceId from, DeviceId to) {
  std::string at = topology.device(from).name;
  for (ChannelId id : topology.Route(from, to)) {
    const Link& link = topology.links()[id.index() / 2];
    const bool up = id.value() % 2 == 0;
    ASSERT_EQ(topology.channel(id).name, absl::StrCat(link.name, up ? ">" : "<"));
    ASSERT_EQ(at, link.ends[up ? 0 : 1]);
    at = link.ends[up ? 1 : 0];
  }
  EXPECT_EQ(at, topology.device(to).name);
}

RouteChannels TurnedAround(RouteChannels route) {
  std::reverse(route.begin(), route.end());
  for (ChannelId& id : route) id = ChannelId(id.value() ^ 1);
  return route;
}

TEST(LevelRoutesTest, AreTheFastestOfTheLinksThatTheLevelsStandFor) {
  int pairs = 0, others = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto made = DeviceTopology::Create(RandomLevels(random));
    ASSERT_TRUE(made.ok()) << made.status();
    const DeviceTopology& topology = *made;
    const auto searched = Routes::Create(topology.devices(), topology.links());
    ASSERT_TRUE(searched.ok()) << searched.status();
    for (DeviceId from : AllOf(topology)) {
      for (DeviceId to : AllOf(topology)) {
        const RouteChannels route = topology.Route(from, to);
        CheckIsWay(topology, from, to);
        EXPECT_EQ(LengthOf(topology, route), LengthOf(topology, (*searched)->Find(from, to)));
        // Rings have two ways of equal length around.
        const RouteChannels back = topology.Route(to, from);
        EXPECT_EQ(LengthOf(topology, route), LengthOf(topology, back));
        others += back != TurnedAround(route);
        ++pairs;
      }
    }
  }
  std::printf("seeds 0..399: %d pairs, %d with another way back\n", pairs, others);
  EXPECT_GT(pairs, 100'000);
  EXPECT_LT(others, pairs / 4);
}

TEST(LevelRoutesTest, WaysBackAreTheSameBesideTori) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const TopologyLevels levels = RandomLevels(random);
    if (std::any_of(levels.levels.begin(), levels.levels.end(), [](const TopologyLevel& level) {
          return level.network == LevelNetwork::kTorus;
        })) {
      continue;
    }
    const DeviceTopology topology = DeviceTopology::Create(levels).value();
    for (DeviceId from : AllOf(topology)) {
      for (DeviceId to : AllOf(topology)) {
        EXPECT_EQ(topology.Route(to, from), TurnedAround(topology.Route(from, to))) << seed;
      }
    }
  }
}

TEST(LevelRoutesTest, ChannelsOfAGroupAreThoseOfItsPairs) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const DeviceTopology topology = DeviceTopology::Create(RandomLevels(random)).value();
    for (int round = 0; round < 8; ++round) {
      std::vector<DeviceId> group = AllOf(topology);
      std::shuffle(group.begin(), group.end(), random);
      if (round > 0) group.resize(1 + random() % group.size());
      std::set<ChannelId> used;
      for (DeviceId from : group) {
        for (DeviceId to : group) {
          const RouteChannels route = topology.Route(from, to);
          used.insert(route.begin(), route.end());
        }
      }
      EXPECT_EQ(topology.ChannelsBetween(group), std::vector<ChannelId>(used.begin(), used.end()))
          << seed;
    }
  }
}

TEST(LevelRoutesTest, LoadsAreThoseOfTheRoutes) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const DeviceTopology topology = DeviceTopology::Create(RandomLevels(random)).value();
    ChannelLoads loads(topology, false), by_table(topology);
    std::map<ChannelId, int64_t> expected;
    Nanos latency;
    for (DeviceId from : AllOf(topology)) {
      std::vector<ChannelLoads::Message> messages;
      for (DeviceId to : AllOf(topology)) {
        if (to == from || random() % 3 == 0) continue;
        const ChannelLoads::Message message{to, static_cast<int64_t>(1 + random() % 1000),
                                            random() % 4 == 0};
        messages.push_back(message);
        const RouteChannels route = topology.Route(from, to);
        for (size_t k = message.on_last_channel ? route.size() - 1 : 0; k < route.size(); ++k) {
          expected[route[k]] += message.bytes;
        }
        latency = std::max(latency, topology.RouteLatency(from, to));
      }
      loads.Add(from, messages);
      by_table.Add(from, messages);
    }
    for (size_t c = 0; c < topology.channels().size(); ++c) {
      const ChannelId id(static_cast<int>(c));
      EXPECT_EQ(loads.bytes(id), expected[id]) << seed << " " << topology.channel(id).name;
      EXPECT_EQ(by_table.bytes(id), expected[id]) << seed << " " << topology.channel(id).name;
    }
    EXPECT_EQ(loads.latency(), latency) << seed;
    EXPECT_EQ(by_table.latency(), latency) << seed;
  }
}

TEST(LevelRoutesTest, TheFirstDevicesKeepTheirRoutes) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const DeviceTopology topology = DeviceTopology::Create(RandomLevels(random)).value();
    const int count = 1 + static_cast<int>(random() % static_cast<unsigned>(topology.size()));
    const DeviceTopology taken = topology.TakeDevices(count).value();
    ASSERT_EQ(taken.size(), count);
    for (DeviceId from : AllOf(taken)) {
      EXPECT_EQ(taken.device(from), topology.device(from));
      for (DeviceId to : AllOf(taken)) {
        const RouteChannels part = taken.Route(from, to), whole = topology.Route(from, to);
        ASSERT_EQ(part.size(), whole.size());
        for (size_t k = 0; k < part.size(); ++k) {
          EXPECT_EQ(taken.channel(part[k]), topology.channel(whole[k]));
        }
      }
    }
    EXPECT_EQ(taken == topology, count == topology.size());
    EXPECT_EQ(taken.fingerprint() == topology.fingerprint(), count == topology.size());
  }
}

std::vector<std::string> NamesOfRoute(const DeviceTopology& topology, int from, int to) {
  std::vector<std::string> names;
  for (ChannelId id : topology.Route(DeviceId(from), DeviceId(to))) {
    names.push_back(topology.channel(id).name);
  }
  return names;
}

TEST(LevelRoutesTest, RailsMeetInTheirLeafAndOthersInTheSpine) {
  const DeviceTopology topology = DeviceTopology::Create(Rails(1024)).value();
  EXPECT_EQ(topology.device(DeviceId(11)).name, "n1.gpu3");
  EXPECT_EQ(topology.device(DeviceId(11)).node, 1);
  EXPECT_EQ(NamesOfRoute(topology, 8, 11),
            (std::vector<std::string>{"n1.gpu0-nvswitch1>", "n1.gpu3-nvswitch1<"}));
  EXPECT_EQ(NamesOfRoute(topology, 3, 11),
            (std::vector<std::string>{"n0.gpu3-nic3>", "nic3-leaf0.3>", "nic11-leaf0.3<",
                                      "n1.gpu3-nic11<"}));
  EXPECT_EQ(NamesOfRoute(topology, 0, 11),
            (std::vector<std::string>{"n0.gpu0-nic0>", "nic0-leaf0.0>", "leaf0.0-spine0>",
                                      "leaf0.3-spine0<", "nic11-leaf0.3<", "n1.gpu3-nic11<"}));
}

TEST(LevelRoutesTest, ToriAreCrossedDimensionByDimensionTheShorterWay) {
  TopologyLevel torus = LevelOf("ici", 60, LevelNetwork::kTorus, 50'000);
  torus.extents = {3, 4, 5};
  const DeviceTopology topology = DeviceTopology::Create(LevelsOf(60, {torus})).value();
  // (0, 0, 0) to (2, 2, 1): down, up twice (as long as down), up.
  EXPECT_EQ(NamesOfRoute(topology, 0, 2 + 3 * 2 + 12),
            (std::vector<std::string>{"n0.gpu0-ici0>", "ici2-ici0<", "ici2-ici5>", "ici5-ici8>",
                                      "ici8-ici20>", "n0.gpu20-ici20<"}));
  EXPECT_EQ(topology.channels().size(), 2u * (60 + 3 * 60));
}

// What is held for each device, and that a group's channels need no pairs.
TEST(LevelRoutesTest, SixtyFiveThousandDevicesAreAFewLines) {
  constexpr int kCount = 65536;
  const DeviceTopology rails = DeviceTopology::Create(Rails(kCount)).value();
  EXPECT_EQ(rails.channels().size(), 2u * (3 * kCount + 256 * 8));
  EXPECT_LE(rails.channels().size() * sizeof(Channel) + rails.devices().size() * sizeof(Device),
            size_t{40} << 20);
  EXPECT_THAT(rails.ChannelsBetween(AllOf(rails)), SizeIs(rails.channels().size()));
  EXPECT_THAT(rails.Route(DeviceId(0), DeviceId(kCount - 1)), SizeIs(6));
  TopologyLevel torus = LevelOf("ici", kCount, LevelNetwork::kTorus, 50'000);
  torus.extents = {32, 32, 64};
  const DeviceTopology tpus = DeviceTopology::Create(LevelsOf(kCount, {torus})).value();
  EXPECT_THAT(tpus.ChannelsBetween(AllOf(tpus)), SizeIs(2u * 4 * kCount));
  EXPECT_THAT(tpus.Route(DeviceId(0), DeviceId(16 + 32 * 16 + 1024 * 32)), SizeIs(2 + 64));
}

TEST(LevelRoutesTest, LevelsSurviveTheirFile) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    TopologyLevels levels = RandomLevels(random);
    if (levels.devices[0].count > 1) {  // two kinds of devices
      levels.devices.push_back(levels.devices[0]);
      --levels.devices[0].count;
      levels.devices[1].count = 1;
      levels.devices[1].device.device_class = "other";
    }
    const DeviceTopology topology = DeviceTopology::Create(levels).value();
    const proto::Topology message = TopologyToProto(topology);
    EXPECT_EQ(message.devices_size() + message.links_size(), 0);
    const auto again = TopologyFromProto(message);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, topology);
    EXPECT_EQ(again->fingerprint(), topology.fingerprint());
    EXPECT_EQ(again->device(DeviceId(topology.size() - 1)).device_class,
              levels.devices.back().device.device_class);
  }
}

TEST(LevelRoutesTest, LevelsBesideDevicesAreRefused) {
  proto::Topology message = TopologyToProto(DeviceTopology::Create(Rails(64)).value());
  *message.add_devices() = TopologyToProto(VirtualCpuDevices(1)).devices(0);
  message.mutable_levels(0)->set_name("");
  const auto made = TopologyFromProto(message);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("2 faults"));
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("1 devices and 0 links beside"));
}

TEST(LevelRoutesTest, AllFaultsAreNamedAtOnce) {
  TopologyLevels levels = Rails(64);
  levels.devices[0].device.name = "gpu7";
  levels.devices[0].device.memory = Bytes(0);
  levels.levels[0].bytes_per_second = -1;
  levels.levels[1].rails = 2;
  levels.levels[2].name = "nic";
  levels.levels[3].count = 0;
  const auto made = DeviceTopology::Create(levels);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string said(made.status().message());
  for (const char* fault : {"6 faults", "'gpu7'", "0 bytes of memory", "'nic' has -1 bytes/s",
                            "'nvswitch' has 2 rails", "'nic' is there twice", "count 0"}) {
    EXPECT_THAT(said, HasSubstr(fault));
  }
}

TEST(LevelRoutesTest, FaultsSayWhatIsWanted) {
  struct Spoiled {
    std::string said;
    std::function<void(TopologyLevels&)> spoil;
  };
  const Spoiled cases[] = {
      {"0 devices", [](auto& all) { all.devices.clear(); }},
      {"1 to 131072", [](auto& all) { all.devices[0].count = 200'000; }},
      {"nothing joins", [](auto& all) { all.levels.pop_back(); }},
      {"count 0", [](auto& all) { all.devices[0].count = 0; }},
      {"9 rails; wanted 1 to", [](auto& all) { all.levels[0].rails = 9; }},
      {"second one with is_node", [](auto& all) { all.levels[3].is_node = true; }},
      {"no TORUS", [](auto& all) { all.levels[0].extents = {1}; }},
      {"product is 8", [](auto& all) { all.levels[1].network = LevelNetwork::kTorus; }},
      {"groups of", [](auto& all) { all.levels[1].count = 2'000'000'000; }},
      {"brings the links",
       [](auto& all) {
         all.levels[3].network = LevelNetwork::kTorus;
         all.levels[1].network = LevelNetwork::kNone;
         all.levels[3].count = 1 << 20;
         all.levels[3].extents = {1 << 14, 1 << 14};
       }},
      {"switches; wanted at most",
       [](auto& all) {
         all.levels[2].count = 1 << 26;
         all.levels[2].rails = 1 << 28;
       }},
      {"up to 8 numbers",
       [](auto& all) {
         all.levels[1].network = LevelNetwork::kTorus;
         all.levels[1].extents = {8, 1, 1, 1, 1, 1, 1, 1, 1};
       }},
      {"of 65 characters", [](auto& all) { all.levels[1].name = std::string(65, 'x'); }},
      {"of 99 characters", [](auto& all) { all.devices[0].device.host = std::string(99, 'x'); }},
      {"cores for each of 64", [](auto& all) { all.devices[0].device.cores.resize(1 << 19); }},
      {"all pairs of",
       [](auto& all) { all.levels[3] = LevelOf("pairs", 99, LevelNetwork::kAllPairs, 1); }},
      {"TORUS outside",
       [](auto& all) {
         all.levels[3] = LevelOf("ici", 1, LevelNetwork::kTorus, 1);
         all.levels[3].extents = {256};
       }},
  };
  for (const Spoiled& bad : cases) {
    TopologyLevels levels = Rails(64);
    bad.spoil(levels);
    const auto made = DeviceTopology::Create(levels);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument) << bad.said;
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(bad.said));
  }
}

}  // namespace
}  // namespace partita

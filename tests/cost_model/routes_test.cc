#include "graph/parallel/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cost_model/machines.h"
#include "tests/cost_model/made_topologies.h"

namespace partita {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// What routes are compared by: time for 1 MiB, then links.
using Length = std::pair<int64_t, int>;
constexpr Length kUnreachable{std::numeric_limits<int64_t>::max() / 4, 0};

int64_t ProbeNanos(const Link& link) {
  return link.latency.value() + static_cast<int64_t>(1e9 * (1 << 20) / link.bytes_per_second);
}

// The lengths of the best routes between all devices, by Floyd and Warshall: over switches, and
// over media by all pairs of their ends.
std::vector<std::vector<Length>> AllLengths(const std::vector<Device>& devices,
                                            const std::vector<Link>& links) {
  std::map<std::string, size_t> vertices;
  for (const Device& device : devices) vertices.emplace(device.name, vertices.size());
  for (const Link& link : links) {
    for (const std::string& end : link.ends) vertices.emplace(end, vertices.size());
  }
  const size_t count = vertices.size();
  std::vector<std::vector<Length>> best(count, std::vector<Length>(count, kUnreachable));
  for (size_t v = 0; v < count; ++v) best[v][v] = {0, 0};
  for (const Link& link : links) {
    for (const std::string& a : link.ends) {
      for (const std::string& b : link.ends) {
        if (a == b) continue;
        Length& length = best[vertices[a]][vertices[b]];
        length = std::min(length, Length(ProbeNanos(link), 1));
      }
    }
  }
  for (size_t via = devices.size(); via < count; ++via) {  // devices do not forward
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = 0; b < count; ++b) {
        const Length sum(best[a][via].first + best[via][b].first,
                         best[a][via].second + best[via][b].second);
        best[a][b] = std::min(best[a][b], sum);
      }
    }
  }
  return best;
}

// The link of each channel.
std::vector<const Link*> LinksOfChannels(const std::vector<Link>& links) {
  std::vector<const Link*> found;
  for (const Link& link : links) found.insert(found.end(), link.shared ? 1 : 2, &link);
  return found;
}

// Where the channels lead from a vertex; empty where one does not begin where the last one ended.
std::set<std::string> Follow(const RouteChannels& route, const std::string& from,
                             const std::vector<Link>& links) {
  std::vector<Channel> channels;
  for (const Link& link : links) AddChannels(link, {}, channels);
  const std::vector<const Link*> link_of = LinksOfChannels(links);
  std::set<std::string> at = {from};
  for (ChannelId id : route) {
    const Link& link = *link_of[id.index()];
    std::set<std::string> next;
    for (size_t k = 0; k < link.ends.size(); ++k) {
      if (!at.contains(link.ends[k])) continue;
      const char direction = channels[id.index()].name.back();
      if (!link.shared && (direction == '>') != (k == 0)) continue;
      next.insert(link.ends.begin(), link.ends.end());
      next.erase(link.ends[k]);
    }
    at = std::move(next);
  }
  return at;
}

// Checks the routes of all pairs; returns how many are of several links.
int CheckRoutes(const std::vector<Device>& devices, const std::vector<Link>& links) {
  const auto kept = Routes::Create(devices, links).value();
  const auto searched = Routes::Create(devices, links, 0).value();
  const std::vector<std::vector<Length>> best = AllLengths(devices, links);
  const std::vector<const Link*> link_of = LinksOfChannels(links);
  std::set<ChannelId> used;
  std::vector<DeviceId> all;
  int long_ones = 0;
  for (size_t a = 0; a < devices.size(); ++a) {
    all.push_back(DeviceId(static_cast<int>(a)));
    for (size_t b = 0; b < devices.size(); ++b) {
      const DeviceId from(static_cast<int>(a)), to(static_cast<int>(b));
      const RouteChannels route = kept->Find(from, to);
      EXPECT_EQ(route, searched->Find(from, to)) << devices[a].name << " " << devices[b].name;
      Length length(0, static_cast<int>(route.size()));
      for (ChannelId id : route) length.first += ProbeNanos(*link_of[id.index()]);
      EXPECT_EQ(length, best[a][b]) << devices[a].name << " " << devices[b].name;
      EXPECT_TRUE(Follow(route, devices[a].name, links).contains(devices[b].name));
      used.insert(route.begin(), route.end());
      long_ones += route.size() > 1 ? 1 : 0;
    }
  }
  const std::vector<ChannelId> channels(used.begin(), used.end());
  EXPECT_EQ(kept->Between(all), channels);
  EXPECT_EQ(kept->Between(all), channels);  // kept
  EXPECT_EQ(searched->Between(all), channels);
  EXPECT_EQ(searched->kept_bytes(), 0);
  return long_ones;
}

TEST(RoutesTest, AreTheFastestOfAllOnEveryPreset) {
  int several = 0;
  for (const NamedMachine& named : NamedMachines()) {
    const Machine machine = named.make().value();
    const DeviceTopology& topology = machine.topology;
    several += CheckRoutes({topology.devices().begin(), topology.devices().end()},
                           {topology.links().begin(), topology.links().end()});
  }
  EXPECT_GT(several, 1000);
}

// Few speeds and latencies, so that many routes take equally long.
TEST(RoutesTest, AreTheFastestOfAllOnRandomMachines) {
  int connected = 0, unconnected = 0, long_ones = 0;
  for (unsigned seed = 0; seed < 800; ++seed) {
    std::mt19937 random(seed);
    const int devices = 3 + static_cast<int>(random() % 8);
    const int switches = static_cast<int>(random() % 6);
    std::vector<Device> all;
    for (int d = 0; d < devices; ++d) all.push_back(Gpu(d));
    const std::vector<Link> links =
        RandomLinks(devices, switches, devices + static_cast<int>(random() % 20), random);
    const auto lengths = AllLengths(all, links);
    bool reaches_all = true;
    for (int a = 0; a < devices; ++a) {
      for (int b = 0; b < devices; ++b) reaches_all &= lengths[a][b].first < kUnreachable.first;
    }
    EXPECT_EQ(Routes::Create(all, links).ok(), reaches_all) << seed;
    if (reaches_all) long_ones += CheckRoutes(all, links);
    ++(reaches_all ? connected : unconnected);
  }
  std::printf("seeds 0..799: %d connected machines, %d others, %d routes of several links\n",
              connected, unconnected, long_ones);
  EXPECT_GE(connected, 150);
  EXPECT_GE(unconnected, 150);
  EXPECT_GE(long_ones, 1000);
}

TEST(RoutesTest, OfEquallyFastLinksTheFirstIsTaken) {
  const Link wire{.name = "first", .ends = {"d0", "d1"}, .bytes_per_second = 1'000'000'000};
  Link again = wire;
  again.name = "second";
  const auto topology = DeviceTopology::Create({Gpu(0), Gpu(1)}, {wire, again}).value();
  ASSERT_THAT(topology.Route(DeviceId(0), DeviceId(1)), SizeIs(1));
  EXPECT_EQ(topology.channel(topology.Route(DeviceId(0), DeviceId(1))[0]).name, "first>");
}

TEST(RoutesTest, ErrorsNameTheFirstPairThatNothingConnects) {
  const auto routes =
      Routes::Create(std::vector{Gpu(0), Gpu(1), Gpu(2)},
                     std::vector{Link{.name = "a", .ends = {"d0", "s"}, .bytes_per_second = 1},
                                 Link{.name = "b", .ends = {"d1", "s"}, .bytes_per_second = 1},
                                 Link{.name = "c", .ends = {"d2", "t"}, .bytes_per_second = 1}});
  EXPECT_EQ(routes.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(routes.status().message()), HasSubstr("'d0' to device 'd2'"));
}

TEST(RoutesTest, AChainOf4096DevicesKeepsLittle) {
  constexpr int kCount = 4096;
  const DeviceTopology chain = Chain(kCount);
  const auto routes = Routes::Create(chain.devices(), chain.links()).value();
  EXPECT_EQ(routes->kept_bytes(), 0);
  std::vector<DeviceId> all;
  for (int d = 0; d < kCount; ++d) {
    all.push_back(DeviceId(d));
    EXPECT_THAT(routes->Find(DeviceId(d), DeviceId((d + 1) % kCount)),
                SizeIs(d + 1 < kCount ? 3 : kCount + 1));
    EXPECT_THAT(routes->Find(DeviceId(d), DeviceId(0)), SizeIs(d == 0 ? 0 : d + 2));
  }
  EXPECT_THAT(routes->Between(all), SizeIs(chain.channels().size()));
  EXPECT_GT(routes->kept_bytes(), Routes::kMostKept / 2);
  EXPECT_LE(routes->kept_bytes(), Routes::kMostKept);
}

TEST(RoutesTest, DevicesOfOneSwitchShareATree) {
  const DeviceTopology tree = TwoLevelTree(4096, 64);
  std::vector<DeviceId> all;
  for (int d = 0; d < tree.size(); ++d) all.push_back(DeviceId(d));
  EXPECT_THAT(tree.ChannelsBetween(all), SizeIs(tree.channels().size()));
  EXPECT_THAT(tree.Route(DeviceId(0), DeviceId(63)), SizeIs(2));
  EXPECT_THAT(tree.Route(DeviceId(0), DeviceId(64)), SizeIs(4));
  EXPECT_EQ(tree.routes().trees_found(), 64);
}

TEST(RoutesTest, SeveralThreadsGetTheSame) {
  const DeviceTopology chain = Chain(64), asked = Chain(64);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 64 * 64; ++k) {
        const DeviceId from((k + 16 * t) % 64), to(k / 64);
        wrong[static_cast<size_t>(t)] +=
            asked.Route(from, to).size() !=
            (from == to ? 0u : std::abs(from.value() - to.value()) + 2u);
        const DeviceId group[] = {from, to};
        wrong[static_cast<size_t>(t)] +=
            asked.ChannelsBetween(group).size() != 2 * asked.Route(from, to).size();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

}  // namespace
}  // namespace partita

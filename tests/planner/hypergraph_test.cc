// The partitioner of hypergraphs against all partitions of small ones, and against a greedy one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "planner/expert/hypergraph/bisection.h"
#include "planner/expert/hypergraph/gain_buckets.h"
#include "planner/expert/hypergraph/partitioner.h"

namespace partita {
namespace {

Hypergraph RandomHypergraph(int32_t vertices, int nets, int64_t heaviest, std::mt19937_64& random) {
  std::vector<int64_t> weights;
  for (int32_t v = 0; v < vertices; ++v) {
    weights.push_back(1 + static_cast<int64_t>(random() % static_cast<uint64_t>(heaviest)));
  }
  std::vector<Hypergraph::Net> all;
  for (int n = 0; n < nets; ++n) {
    Hypergraph::Net net{1 + static_cast<int64_t>(random() % 20), {}};
    // Mostly neighbours, as in a network of layers.
    const auto near = static_cast<int32_t>(random() % static_cast<uint64_t>(vertices));
    for (size_t k = 2 + random() % 4; k > 0; --k) {
      const uint64_t reach = random() % 4 == 0 ? 1000 : 6;
      const auto step = static_cast<int32_t>(random() % reach);
      net.pins.push_back((near + step) % vertices);
    }
    std::sort(net.pins.begin(), net.pins.end());
    net.pins.erase(std::unique(net.pins.begin(), net.pins.end()), net.pins.end());
    all.push_back(std::move(net));
  }
  return Hypergraph(std::move(weights), std::move(all));
}

// The least connectivity of all partitions within the limit; the largest number if there is none.
int64_t LeastOfAll(const Hypergraph& h, const PartitionerOptions& options) {
  std::vector<int32_t> part(static_cast<size_t>(h.vertices()), 0);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (;;) {
    if (HeaviestPart(h, part, options.parts) <= PartLimit(h, options)) {
      least = std::min(least, ConnectivityMinusOne(h, part));
    }
    size_t v = 0;
    while (v < part.size() && ++part[v] == options.parts) part[v++] = 0;
    if (v == part.size()) return least;
  }
}

// Vertices from heavy to light, each where it adds the least connectivity of the parts with room;
// where none has room, to the lightest.
std::vector<int32_t> Greedy(const Hypergraph& h, const PartitionerOptions& options) {
  std::vector<int32_t> order(static_cast<size_t>(h.vertices())), part(order.size(), -1);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return h.weight(a) > h.weight(b); });
  std::vector<int64_t> weights(static_cast<size_t>(options.parts), 0);
  const auto added = [&](int32_t v, int32_t to) {
    int64_t cost = 0;
    for (int32_t net : h.nets_of(v)) {
      bool there = false, anywhere = false;
      for (int32_t pin : h.pins(net)) {
        there |= part[static_cast<size_t>(pin)] == to;
        anywhere |= part[static_cast<size_t>(pin)] >= 0;
      }
      if (anywhere && !there) cost += h.cost(net);
    }
    return cost;
  };
  for (int32_t v : order) {
    auto best =
        static_cast<int32_t>(std::min_element(weights.begin(), weights.end()) - weights.begin());
    for (int32_t to = 0; to < options.parts; ++to) {
      const int64_t weight = weights[static_cast<size_t>(to)] + h.weight(v);
      if (weight <= PartLimit(h, options) && added(v, to) < added(v, best)) best = to;
    }
    part[static_cast<size_t>(v)] = best;
    weights[static_cast<size_t>(best)] += h.weight(v);
  }
  return part;
}

TEST(HypergraphTest, ConnectivityCountsThePartsOfANetButOne) {
  // The second net is the first one again; the third has one pin.
  const Hypergraph h({1, 2, 3, 4}, {{5, {0, 1, 2}}, {2, {2, 1, 0}}, {9, {3}}, {3, {2, 3}}});
  EXPECT_EQ(h.nets(), 2);
  EXPECT_EQ(h.total_weight(), 10);
  EXPECT_EQ(ConnectivityMinusOne(h, std::vector<int32_t>{0, 0, 0, 0}), 0);
  EXPECT_EQ(ConnectivityMinusOne(h, std::vector<int32_t>{0, 1, 1, 1}), 7);
  EXPECT_EQ(ConnectivityMinusOne(h, std::vector<int32_t>{0, 1, 2, 0}), 17);
  EXPECT_EQ(HeaviestPart(h, std::vector<int32_t>{0, 1, 2, 0}, 3), 5);
}

TEST(GainBucketsTest, TheHighestGainComesFirstAndOfEqualOnesTheLast) {
  GainBuckets buckets(4, 10);
  buckets.Insert(0, -10);
  buckets.Insert(1, 10);
  buckets.Insert(2, 10);
  buckets.Insert(3, 0);
  EXPECT_EQ(buckets.Best(), 2);
  buckets.Remove(2);
  buckets.Remove(1);
  EXPECT_EQ(buckets.Best(), 3);
  buckets.Remove(3);
  EXPECT_EQ(buckets.Best(), 0);
  EXPECT_FALSE(buckets.Contains(3));
  buckets.Clear();
  EXPECT_TRUE(buckets.empty());
}

TEST(BisectionTest, RefinementIsNeverWorseAndItsFiguresAreTrue) {
  std::mt19937_64 random(3);
  for (int k = 0; k < 200; ++k) {
    const Hypergraph h = RandomHypergraph(4 + static_cast<int32_t>(random() % 60), 80, 5, random);
    const int64_t limit = h.total_weight() * 11 / 20 + 1;
    const SideLimits limits = {limit, limit};
    std::vector<int8_t> side;
    for (int32_t v = 0; v < h.vertices(); ++v) side.push_back(static_cast<int8_t>(random() % 2));
    const Bisection start = Measured(h, side, limits);
    const Bisection refined = Refine(h, start, limits);
    EXPECT_FALSE(IsBetter(start, refined));
    const Bisection again = Measured(h, refined.side, limits);
    EXPECT_EQ(again.cut, refined.cut);
    EXPECT_EQ(again.excess, refined.excess);
  }
}

TEST(PartitionerTest, FindsMostOptimaOfSmallHypergraphs) {
  std::mt19937_64 random(4);
  int cases = 0, optimal = 0;
  int64_t found = 0, least = 0;
  while (cases < 200) {
    const PartitionerOptions options{.parts = 2 + static_cast<int32_t>(random() % 2),
                                     .imbalance = 0.25};
    const Hypergraph h = RandomHypergraph(options.parts == 2 ? 12 : 8,
                                          5 + static_cast<int>(random() % 20), 3, random);
    const int64_t optimum = LeastOfAll(h, options);
    if (optimum == std::numeric_limits<int64_t>::max()) continue;  // no partition is in balance
    const std::vector<int32_t> part = PartitionHypergraph(h, options);
    EXPECT_LE(HeaviestPart(h, part, options.parts), PartLimit(h, options));
    const int64_t connectivity = ConnectivityMinusOne(h, part);
    EXPECT_GE(connectivity, optimum);
    ++cases;
    optimal += connectivity == optimum;
    found += connectivity;
    least += optimum;
  }
  EXPECT_GE(optimal, 150);
  EXPECT_LE(found, least * 104 / 100);
}

TEST(PartitionerTest, KeepsTheLimitAndIsNoWorseThanGreedy) {
  std::mt19937_64 random(5);
  int64_t found = 0, greedy_sum = 0;
  for (int k = 0; k < 100; ++k) {
    const PartitionerOptions options{.parts = 2 + static_cast<int32_t>(random() % 7),
                                     .imbalance = 0.05};
    const auto vertices = static_cast<int32_t>(100 + random() % 200);
    const Hypergraph h = RandomHypergraph(vertices, 2 * vertices, 4, random);
    const std::vector<int32_t> part = PartitionHypergraph(h, options);
    EXPECT_LE(HeaviestPart(h, part, options.parts), PartLimit(h, options));
    const int64_t connectivity = ConnectivityMinusOne(h, part);
    const int64_t greedy = ConnectivityMinusOne(h, Greedy(h, options));
    EXPECT_LE(connectivity, greedy) << vertices << " vertices, " << options.parts << " parts";
    found += connectivity;
    greedy_sum += greedy;
  }
  EXPECT_LE(found, greedy_sum * 3 / 4);
}

TEST(PartitionerTest, EqualArgumentsGiveEqualPartitions) {
  std::mt19937_64 random(6);
  const Hypergraph h = RandomHypergraph(300, 500, 4, random);
  EXPECT_EQ(PartitionHypergraph(h, {.parts = 5}), PartitionHypergraph(h, {.parts = 5}));
}

TEST(PartitionerTest, LayersAreCutBetweenLayers) {
  // Eight layers of eight vertices that all read all of the layer before; cheap behind the fourth.
  std::vector<Hypergraph::Net> nets;
  for (int32_t layer = 0; layer < 7; ++layer) {
    for (int32_t v = 0; v < 8; ++v) {
      Hypergraph::Net net{layer == 3 ? 1 : 10, {layer * 8 + v}};
      for (int32_t u = 0; u < 8; ++u) net.pins.push_back((layer + 1) * 8 + u);
      nets.push_back(std::move(net));
    }
  }
  const Hypergraph h(std::vector<int64_t>(64, 1), std::move(nets));
  const std::vector<int32_t> part = PartitionHypergraph(h, {.parts = 2});
  EXPECT_EQ(ConnectivityMinusOne(h, part), 8);
}

TEST(PartitionerTest, VerticesThatNoBalanceAllowsArePartitionedAllTheSame) {
  const Hypergraph h({100, 1, 1}, {{1, {0, 1}}, {1, {1, 2}}});
  const std::vector<int32_t> part = PartitionHypergraph(h, {.parts = 2});
  EXPECT_EQ(part.size(), 3u);
  EXPECT_GT(HeaviestPart(h, part, 2), PartLimit(h, {.parts = 2}));
}

}  // namespace
}  // namespace partita

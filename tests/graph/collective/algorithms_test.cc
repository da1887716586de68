#include "graph/collective/algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "graph/collective/algorithm_name.h"
#include "graph/collective/multicolor_tree.h"
#include "graph/collective/run_schedule.h"
#include "graph/collective/symbolic_check.h"
#include "tests/graph/collective/random_collectives.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

CollectiveSchedule Built(absl::string_view algorithm, const Collective& collective,
                         const ScheduleOptions& options = {}) {
  absl::StatusOr<CollectiveSchedule> schedule = BuildSchedule(algorithm, collective, options);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

std::string Describe(const Case& c) {
  return std::string(c.algorithm->name) + ", " + ToString(c.collective) + ", colors " +
         std::to_string(c.options.colors) + ", segments " + std::to_string(c.options.segments) +
         ", nodes " + NodesText(c.options.nodes);
}

// Values that no two orders of summation are likely to round alike.
template <class T>
std::vector<std::vector<T>> RandomBuffers(const Collective& c, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<T>> buffers(c.ranks);
  for (int rank = 0; rank < c.ranks; ++rank) {
    for (int64_t i = 0; i < SendElements(c, rank); ++i) {
      const uint32_t word = random();
      if constexpr (std::is_floating_point_v<T>) {
        buffers[rank].push_back(std::ldexp(static_cast<T>(word) - 2e9f, word % 24));
      } else {
        buffers[rank].push_back(static_cast<T>(word) << 32 | random());
      }
    }
  }
  return buffers;
}

// What every rank wants, computed without a schedule: the left-to-right sum in order of ranks, or
// the block of its owner.
uint64_t Expected(const Collective& c, const std::vector<std::vector<uint64_t>>& inputs,
                  int64_t element) {
  if (c.kind == CollectiveKind::kAllGather) {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const ElementRange& block = c.blocks[rank];
      if (block.offset <= element && element < block.end()) return inputs[rank][element];
    }
  }
  uint64_t result = inputs[0][element];
  for (int rank = 1; rank < c.ranks; ++rank) {
    result = CombineElements(c.reduction, result, inputs[rank][element]);
  }
  return result;
}

void ExpectAllToAllResult(const Collective& c, const CollectiveSchedule& schedule, unsigned seed) {
  const auto sent = RandomBuffers<uint64_t>(c, seed);
  std::vector<std::vector<uint64_t>> wanted(c.ranks), received(c.ranks);
  for (int to = 0; to < c.ranks; ++to) {
    for (int from = 0; from < c.ranks; ++from) {
      const auto begin = sent[from].begin() + SendOffset(c, from, to);
      wanted[to].insert(wanted[to].end(), begin, begin + c.counts[from][to]);
    }
    received[to].resize(wanted[to].size());
  }
  RunSchedule(schedule, c.reduction, sent, received);
  EXPECT_EQ(received, wanted);
}

void ExpectInPlaceResult(const Collective& c, const CollectiveSchedule& schedule, unsigned seed) {
  const auto inputs = RandomBuffers<uint64_t>(c, seed);
  auto buffers = inputs;
  RunInPlace(schedule, c.reduction, buffers);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const ElementRange wanted =
        c.kind == CollectiveKind::kReduceScatter ? c.blocks[rank] : ElementRange{0, c.total};
    for (int64_t i = wanted.offset; i < wanted.end(); ++i) {
      ASSERT_EQ(buffers[rank][i], Expected(c, inputs, i)) << "rank " << rank << " element " << i;
    }
  }
}

// ---- Every row of the table.

TEST(CollectiveAlgorithmsTest, EveryRowPassesTheSymbolicCheckUpTo17Ranks) {
  int cases = 0, empty = 0, uneven = 0;
  for (const Case& c : AllCases(12, 1)) {
    const CollectiveSchedule schedule = Built(c.algorithm->name, c.collective, c.options);
    ASSERT_TRUE(CheckSchedule(c.collective, schedule).ok())
        << Describe(c) << ": " << CheckSchedule(c.collective, schedule) << "\n"
        << ToString(schedule);
    ++cases;
    empty += schedule.rounds.empty();
    uneven += c.collective.blocks.size() > 1 &&
              c.collective.blocks.front().count != c.collective.blocks.back().count;
  }
  RecordProperty("cases", cases);
  EXPECT_GE(cases, 2500);
  EXPECT_GE(empty, 100);
  EXPECT_GE(uneven, 500);
}

TEST(CollectiveAlgorithmsTest, EveryRowComputesTheCollectiveInTheRing) {
  unsigned seed = 0;
  for (Case& c : AllCases(4, 2)) {
    c.collective.reduction = ++seed % 3 == 0 ? Reduction::kMax : Reduction::kSum;
    SCOPED_TRACE(Describe(c));
    const CollectiveSchedule schedule = Built(c.algorithm->name, c.collective, c.options);
    if (c.collective.kind == CollectiveKind::kAllToAll) {
      ExpectAllToAllResult(c.collective, schedule, seed);
    } else {
      ExpectInPlaceResult(c.collective, schedule, seed);
    }
  }
}

TEST(CollectiveAlgorithmsTest, EveryAllReduceGivesAllRanksTheSameFloatBits) {
  int sums_that_round = 0;
  for (const CollectiveAlgorithm& algorithm : CollectiveAlgorithms()) {
    if (!algorithm.kinds.contains(CollectiveKind::kAllReduce)) continue;
    for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
      SCOPED_TRACE(std::string(algorithm.name) + " " + std::to_string(ranks));
      const Collective c = MakeAllReduce(ranks, 101);
      auto buffers = RandomBuffers<float>(c, ranks);
      auto doubles = std::vector<double>(c.total, 0);
      for (const auto& buffer : buffers) {
        for (int64_t i = 0; i < c.total; ++i) doubles[i] += buffer[i];
      }
      RunInPlace(Built(algorithm.name, c, {.colors = 3, .segments = 2}), c.reduction, buffers);
      for (int rank = 1; rank < ranks; ++rank) {
        ASSERT_EQ(std::memcmp(buffers[0].data(), buffers[rank].data(), sizeof(float) * c.total), 0)
            << "rank " << rank;
      }
      for (int64_t i = 0; i < c.total; ++i) sums_that_round += doubles[i] != buffers[0][i];
    }
  }
  EXPECT_GE(sums_that_round, 1000);  // else the test could not tell two orders apart
}

// Ranks 0 .. in nodes of these sizes; in_turn: dealt out one by one instead of node by node.
std::vector<int> NodesOfSizes(std::vector<int> sizes, bool in_turn) {
  std::vector<int> nodes;
  const auto ranks = static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), 0));
  for (size_t node = 0; nodes.size() < ranks; node = in_turn ? (node + 1) % sizes.size() : node) {
    if (sizes[node] == 0) {
      node += in_turn ? 0 : 1;
      continue;
    }
    --sizes[node];
    nodes.push_back(static_cast<int>(node));
  }
  return nodes;
}

// Every way of cutting up to 17 ranks into two nodes, into nodes of one size, and uneven ones.
std::vector<std::vector<int>> NodeSizes(int ranks) {
  std::vector<std::vector<int>> all;
  for (int first = 1; first < ranks; ++first) all.push_back({first, ranks - first});
  for (int per_node = 1; per_node <= ranks; ++per_node) {
    std::vector<int> sizes(static_cast<size_t>(ranks / per_node), per_node);
    if (ranks % per_node != 0) sizes.push_back(ranks % per_node);
    all.push_back(std::move(sizes));
  }
  if (ranks >= 6) all.push_back({1, ranks - 4, 3});
  return all;
}

TEST(HierarchicalTest, IsAnAllReduceForEveryGroupingUpTo17Ranks) {
  int groupings = 0;
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (const std::vector<int>& sizes : NodeSizes(ranks)) {
      for (const bool in_turn : {false, true}) {
        const std::vector<int> nodes = NodesOfSizes(sizes, in_turn);
        ASSERT_EQ(nodes.size(), static_cast<size_t>(ranks));
        for (const int64_t total : {int64_t{0}, int64_t{3}, int64_t{1000}}) {
          const Collective c = MakeAllReduce(ranks, total);
          const CollectiveSchedule schedule = Built(ForNodes("hierarchical", nodes), c);
          ASSERT_EQ(CheckSchedule(c, schedule), absl::OkStatus()) << NodesText(nodes);
          EXPECT_EQ(TotalElementsReceived(schedule), 2 * (ranks - 1) * total) << NodesText(nodes);
        }
        ++groupings;
      }
    }
  }
  EXPECT_GE(groupings, 500);
}

TEST(HierarchicalTest, ANodeReceivesTheLeastThatARingOfNodesCan) {
  constexpr int64_t kTotal = 50'400;  // divides evenly for all of these
  for (int count = 2; count <= 5; ++count) {
    for (int per_node = 1; per_node <= 8; ++per_node) {
      const std::vector<int> nodes =
          NodesOfSizes(std::vector<int>(static_cast<size_t>(count), per_node), false);
      const CollectiveSchedule schedule = Built(
          ForNodes("hierarchical", nodes), MakeAllReduce(static_cast<int>(nodes.size()), kTotal));
      std::vector<int64_t> received(static_cast<size_t>(count), 0);
      for (const CollectiveRound& round : schedule.rounds) {
        for (const CollectiveStep& step : round.steps) {
          if (nodes[step.from] != nodes[step.to]) received[nodes[step.to]] += step.count;
        }
      }
      for (const int64_t elements : received) {
        EXPECT_EQ(elements, 2 * (count - 1) * kTotal / count) << NodesText(nodes);
      }
      EXPECT_EQ(schedule.rounds.size(), 2u * (count - 1) + (per_node > 1 ? 2 : 0));
    }
  }
}

TEST(HierarchicalTest, GivesAllRanksTheSameFloatBits) {
  for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
    for (const std::vector<int>& sizes : NodeSizes(ranks)) {
      const Collective c = MakeAllReduce(ranks, 101);
      auto buffers = RandomBuffers<float>(c, ranks);
      RunInPlace(Built(ForNodes("hierarchical", NodesOfSizes(sizes, true)), c), c.reduction,
                 buffers);
      for (int rank = 1; rank < ranks; ++rank) ASSERT_EQ(buffers[0], buffers[rank]);
    }
  }
}

TEST(HierarchicalTest, IsTheDefaultForBigMessagesBetweenNodesWithSeveralRanks) {
  constexpr auto kAllReduce = CollectiveKind::kAllReduce;
  EXPECT_EQ(DefaultAlgorithm(kAllReduce, 4, 8 << 20, std::vector<int>{3, 3, 5, 5}),
            "hierarchical(nodes=0*2+1*2)");
  EXPECT_EQ(DefaultAlgorithm(kAllReduce, 3, 8 << 20, std::vector<int>{0, 1, 0}),
            "hierarchical(nodes=0+1+0)");
  EXPECT_EQ(DefaultAlgorithm(kAllReduce, 4, 1000, std::vector<int>{0, 0, 1, 1}), "scatter_gather");
  EXPECT_EQ(DefaultAlgorithm(kAllReduce, 4, 8 << 20, std::vector<int>{2, 2, 2, 2}), "ring");
  EXPECT_EQ(DefaultAlgorithm(kAllReduce, 4, 8 << 20, std::vector<int>{0, 1, 2, 3}), "ring");
}

TEST(AlgorithmNameTest, SettingsInTheNameAreThoseOfTheSchedule) {
  const Collective c = MakeAllReduce(6, 600);
  EXPECT_EQ(Built("multicolor_tree(colors=3,segments=4)", c),
            Built("multicolor_tree", c, {.colors = 3, .segments = 4}));
  EXPECT_EQ(Built("hierarchical(nodes=0*2+1*3+0)", c),
            Built("hierarchical", c, {.nodes = {7, 7, 2, 2, 2, 7}}));
  EXPECT_EQ(FindCollectiveAlgorithm("hierarchical(nodes=0*2+1*3+0)"),
            FindCollectiveAlgorithm("hierarchical"));
  EXPECT_EQ(NodesText(std::vector<int>{7, 7, 2, 2, 2, 7}), "0*2+1*3+0");
}

TEST(AlgorithmNameTest, WhatIsNoSettingIsAnError) {
  const Collective c = MakeAllReduce(4, 100);
  for (const char* name :
       {"ring(", "ring()", "ring(colors=2", "ring(colors=0)", "ring(colours=2)", "ring(colors)",
        "hierarchical(nodes=)", "hierarchical(nodes=0*0)", "hierarchical(nodes=0*99999999)",
        "hierarchical(nodes=0*2+1)", "hierarchical(nodes=-1*4)"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(BuildSchedule(name, c).status())) << name;
  }
  EXPECT_EQ(FindCollectiveAlgorithm("ring(colours=2)"), nullptr);
}

TEST(CollectiveAlgorithmsTest, RowsHaveUniqueNamesAndDescriptions) {
  for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
    EXPECT_EQ(FindCollectiveAlgorithm(row.name), &row);
    EXPECT_EQ(row.description.back(), '.');
  }
  EXPECT_EQ(FindCollectiveAlgorithm("rings"), nullptr);
}

TEST(CollectiveAlgorithmsTest, DefaultsExistAndReceiveNoMoreThanRing) {
  for (CollectiveKind kind : kCollectiveKinds) {
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
      for (int64_t bytes : {0, 1000, 100000, 500000, 4000000, 100000000}) {
        const CollectiveAlgorithm* row =
            FindCollectiveAlgorithm(DefaultAlgorithm(kind, ranks, bytes));
        ASSERT_NE(row, nullptr);
        EXPECT_TRUE(row->kinds.contains(kind) && row->applicable(ranks));
        if (kind != CollectiveKind::kAllReduce) continue;
        const Collective c = MakeAllReduce(ranks, bytes / 4);
        EXPECT_EQ(TotalElementsReceived(Built(row->name, c)), 2 * (ranks - 1) * c.total);
      }
    }
  }
}

TEST(CollectiveAlgorithmsTest, ErrorsListWhatThereIs) {
  const Collective all_reduce = MakeAllReduce(4, 8);
  const absl::Status unknown = BuildSchedule("rings", all_reduce).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("ring, halving_doubling, direct, scatter_gather, multicolor_tree"));
  const absl::Status other_kind = BuildSchedule("pairwise", all_reduce).status();
  EXPECT_EQ(other_kind.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other_kind.message()), HasSubstr("does not do all_reduce"));
  EXPECT_EQ(BuildSchedule("ring", MakeAllReduce(0, 8)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BuildSchedule("multicolor_tree", all_reduce, {.colors = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// ---- Bytes.

TEST(RingTest, AllRanksTogetherReceiveExactlyTheFormula) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (int64_t total : {0, 1, 7, 64, 1000, 61100840}) {
      const Collective c = MakeAllReduce(ranks, total);
      EXPECT_EQ(TotalElementsReceived(Built("ring", c)), 2 * (ranks - 1) * total);
      EXPECT_EQ(TotalElementsReceived(Built("scatter_gather", c)), 2 * (ranks - 1) * total);
      EXPECT_EQ(TotalElementsReceived(Built("direct", c)), ranks * (ranks - 1) * total);
      if (std::has_single_bit(static_cast<unsigned>(ranks))) {
        EXPECT_EQ(TotalElementsReceived(Built("halving_doubling", c)), 2 * (ranks - 1) * total);
      }
    }
  }
}

TEST(RingTest, UnevenBlocksReceiveExactlyTheFormula) {
  std::mt19937 random(3);
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    const Collective scatter = RandomCollective(CollectiveKind::kReduceScatter, ranks, random);
    const Collective gather = RandomCollective(CollectiveKind::kAllGather, ranks, random);
    for (const Collective& c : {scatter, gather}) {
      EXPECT_EQ(TotalElementsReceived(Built("ring", c)), (ranks - 1) * c.total);
      EXPECT_EQ(TotalElementsReceived(Built("direct", c)), (ranks - 1) * c.total);
    }
  }
}

TEST(RingTest, DividedEvenlyEveryRankReceivesTheSame) {
  const std::vector<int64_t> received = ElementsReceived(Built("ring", MakeAllReduce(4, 61100840)));
  for (int64_t elements : received) EXPECT_EQ(4 * elements, 366605040);  // facts: data parallel
}

TEST(PairwiseTest, EveryRankReceivesWhatIsForItAndOneMessagePerRound) {
  std::mt19937 random(4);
  const Collective c = RandomCollective(CollectiveKind::kAllToAll, 9, random);
  for (const char* name : {"pairwise", "direct"}) {
    const std::vector<int64_t> received = ElementsReceived(Built(name, c));
    for (int rank = 0; rank < c.ranks; ++rank) {
      EXPECT_EQ(received[rank], ReceiveElements(c, rank) - c.counts[rank][rank]);
    }
  }
  const CollectiveSchedule schedule = Built("pairwise", c);
  for (int rank = 0; rank < c.ranks; ++rank) {
    for (const RankRound& round : RoundsOfRank(schedule, rank)) {
      EXPECT_LE(round.sends.size(), 1u);
      EXPECT_LE(round.receives.size(), 1u);
    }
  }
}

// ---- Rounds and orders of summation, as stated in the headers.

TEST(RoundsTest, AreAsManyAsTheHeadersSay) {
  for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
    const Collective c = MakeAllReduce(ranks, 1000);
    const auto rounds = [&](const char* name) { return Built(name, c).rounds.size(); };
    const int log = std::bit_width(static_cast<unsigned>(ranks)) - 1;
    const bool power = std::has_single_bit(static_cast<unsigned>(ranks));
    EXPECT_EQ(rounds("ring"), 2u * (ranks - 1));
    EXPECT_EQ(rounds("halving_doubling"), 2u * log + (power ? 0 : 2));
    EXPECT_EQ(rounds("direct"), 1u);
    EXPECT_EQ(rounds("scatter_gather"), 2u);
    EXPECT_EQ(Built("multicolor_tree", c, {.colors = 2, .segments = 5}).rounds.size(),
              2u * TreeLevel(ranks, 2, 0, ranks - 1) + 4);
  }
}

TEST(RoundsTest, OfATreeAreAsManyAsSegmentsOfEightThousandElementsAsk) {
  const ScheduleOptions four{.colors = 4};
  const auto rounds = [&](int64_t total) {
    return Built("multicolor_tree", MakeAllReduce(8, total), four).rounds.size();
  };
  const size_t levels = 2u * TreeLevel(8, 4, 0, 7);
  EXPECT_EQ(rounds(4 * 8192), levels);
  EXPECT_EQ(rounds(4 * 64 * 8192), levels + 63);
  EXPECT_EQ(rounds(int64_t{4} * 1024 * 8192), levels + 127);
}

// Writes down the order of summation as text.
std::string SumAsText(const char* algorithm, int ranks, int64_t element,
                      const ScheduleOptions& options = {}) {
  struct Term {
    std::string text;
    Term operator+(const Term& b) const { return {"(" + text + "+" + b.text + ")"}; }
    bool operator<(const Term& b) const { return text < b.text; }
  };
  std::vector<std::vector<Term>> buffers(ranks);
  for (int rank = 0; rank < ranks; ++rank) buffers[rank].assign(ranks, {std::to_string(rank)});
  RunInPlace(Built(algorithm, MakeAllReduce(ranks, ranks), options), Reduction::kSum, buffers);
  for (int rank = 1; rank < ranks; ++rank) {
    EXPECT_EQ(buffers[0][element].text, buffers[rank][element].text);
  }
  return buffers[0][element].text;
}

TEST(SummationOrderTest, IsTheOneThatTheHeadersState) {
  for (int64_t element : {0, 3}) {
    EXPECT_EQ(SumAsText("direct", 4, element), "(((0+1)+2)+3)");
    EXPECT_EQ(SumAsText("scatter_gather", 4, element), "(((0+1)+2)+3)");
    EXPECT_EQ(SumAsText("halving_doubling", 4, element), "((0+2)+(1+3))");
    EXPECT_EQ(SumAsText("halving_doubling", 6, element), "(((0+1)+4)+((2+3)+5))");
  }
  EXPECT_EQ(SumAsText("ring", 4, 3), "(((0+1)+2)+3)");
  EXPECT_EQ(SumAsText("ring", 4, 0), "(0+((1+2)+3))");
  EXPECT_EQ(SumAsText("multicolor_tree", 3, 0), "((0+1)+2)");
}

TEST(MulticolorTreeTest, InnerNodesOfColorsAreDisjointAndTrafficIsBounded) {
  for (int colors = 1; colors <= 4; ++colors) {
    for (int ranks = colors; ranks <= kMostRanks; ++ranks) {
      std::vector<int> inner_in(ranks, 0);
      for (int color = 0; color < colors; ++color) {
        std::vector<bool> inner(ranks, false);
        for (int rank = 0; rank < ranks; ++rank) {
          const int parent = TreeParent(ranks, colors, color, rank);
          EXPECT_EQ(parent < 0, rank == TreeRoot(ranks, colors, color));
          if (parent >= 0) inner[parent] = true;
        }
        for (int rank = 0; rank < ranks; ++rank) inner_in[rank] += inner[rank];
      }
      if (colors > 1 && ranks % colors > 1) continue;
      const int64_t total = 60 * colors;
      const std::vector<int64_t> received = ElementsReceived(
          Built("multicolor_tree", MakeAllReduce(ranks, total), {.colors = colors, .segments = 3}));
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_LE(inner_in[rank], 1) << ranks << " ranks, " << colors << " colors";
        EXPECT_LE(received[rank], 2 * total) << ranks << " ranks, " << colors << " colors";
      }
    }
  }
}

}  // namespace
}  // namespace partita

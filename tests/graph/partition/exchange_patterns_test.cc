// The regular layouts of training and what they must become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/partition/join_terms.h"
#include "tests/graph/partition/random_exchange.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int64_t kRows = 8, kColumns = 6;
const Box kFull{{0, kRows}, {0, kColumns}};

// Block k of n along one dimension.
Box Shard(int64_t k, int64_t n, int dimension = 0) {
  Box box = kFull;
  box[dimension] = BlockOf(kFull[dimension].hi, n, k);
  return box;
}

class ExchangePatternsTest : public ::testing::Test {
 protected:
  ExchangePatternsTest() { c_.shape = {kRows, kColumns}; }

  void AddPiece(const Box& box, int device, int term) {
    c_.pieces.push_back({box, DeviceId(device), term});
    c_.devices = std::max(c_.devices, device + 1);
  }
  void AddDemand(const Box& box, int device) {
    c_.demands.push_back({box, DeviceId(device)});
    c_.devices = std::max(c_.devices, device + 1);
  }
  // Checks every element and returns the tasks that communicate.
  std::map<std::string, int> Patterns() {
    c_.persistent.assign(c_.pieces.size(), false);
    c_.preset.assign(c_.demands.size(), -1);
    std::mt19937_64 random(1);
    auto outcome = CheckExchange(c_, random);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return {};
    graph_ = outcome->graph;
    return outcome->patterns;
  }
  int64_t ElementsReceivedInAll() const {
    int64_t bytes = 0;
    for (Bytes b : BytesReceived(graph_)) bytes += b.value();
    return bytes / SizeOf(c_.dtype);
  }
  std::vector<std::vector<int>> AllReduceGroups() const {
    std::vector<std::vector<int>> groups;
    for (const Task& task : graph_.tasks()) {
      const auto* collective = std::get_if<CollectiveTask>(&task.body);
      if (collective == nullptr || collective->collective.kind != CollectiveKind::kAllReduce) {
        continue;
      }
      groups.emplace_back();
      for (DeviceId device : collective->group) groups.back().push_back(device.value());
    }
    return groups;
  }
  void ExpectFloatCopiesAgree() {
    std::mt19937_64 random(1);
    EXPECT_EQ(CheckFloatCopiesAgree(c_, random), absl::OkStatus());
  }
  int MoveTasks() const {
    return static_cast<int>(std::count_if(
        graph_.tasks().begin(), graph_.tasks().end(),
        [](const Task& task) { return std::holds_alternative<MoveTask>(task.body); }));
  }
  int64_t MovesOf(TaskKey::Phase phase) const {
    int64_t moves = 0;
    for (const Task& task : graph_.tasks()) {
      if (task.key.phase != phase) continue;
      moves += static_cast<int64_t>(std::get<MoveTask>(task.body).moves.size());
    }
    return moves;
  }

  ExchangeCase c_;
  TaskGraph graph_;
};

TEST_F(ExchangePatternsTest, DataParallelGradientIsOneAllReduceInPlace) {
  for (int d = 0; d < 4; ++d) AddPiece(kFull, d, d), AddDemand(kFull, d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 1)));
  EXPECT_EQ(MoveTasks(), 0);
  EXPECT_EQ(ElementsReceivedInAll(), 2 * 3 * kRows * kColumns);
}

TEST_F(ExchangePatternsTest, RingAllReduceReceivesTwicePMinusOneOverPOfTheTensorOnEachDevice) {
  for (int devices : {2, 3, 4, 5, 8}) {
    c_ = {.shape = {devices * 3, 7}, .dtype = DType::kInt32};
    c_.options.algorithm = AlwaysBy("ring");
    for (int d = 0; d < devices; ++d) {
      AddPiece(Box::Full(c_.shape), d, d);
      AddDemand(Box::Full(c_.shape), d);
    }
    Patterns();
    for (Bytes received : BytesReceived(graph_)) {
      EXPECT_EQ(received.value() * devices, 2 * (devices - 1) * Volume(c_.shape) * 4);
    }
  }
}

TEST_F(ExchangePatternsTest, GradientsIntoShardsAreAReduceScatterInPlace) {
  for (int d = 0; d < 4; ++d) AddPiece(kFull, d, d), AddDemand(Shard(d, 4), d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("reduce_scatter", 1)));
  EXPECT_EQ(ElementsReceivedInAll(), 3 * kRows * kColumns);
}

TEST_F(ExchangePatternsTest, DevicesThatOwnNothingGatherApartFromThoseThatOwnShards) {
  for (int d = 0; d < 4; ++d) AddPiece(Shard(d, 4), d, 0);
  for (int d = 0; d < 8; ++d) AddDemand(kFull, d);
  // Each owner sends its shard to one of the others, which gather from there.
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_gather", 2), Pair("transfers", 4)));
  EXPECT_EQ(ElementsReceivedInAll(), (3 + 1 + 3) * kRows * kColumns);
}

TEST_F(ExchangePatternsTest, OfFewOwnersAllGatherTogether) {
  for (int d = 0; d < 3; ++d) AddPiece(Shard(d, 3), d, 0);
  for (int d = 0; d < 8; ++d) AddDemand(kFull, d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_gather", 1)));
}

TEST_F(ExchangePatternsTest, ShardsOnSomeOfTheDevicesAreAReduceScatterWithEmptyBlocks) {
  for (int d = 0; d < 4; ++d) AddPiece(kFull, d, d);
  for (int d = 0; d < 3; ++d) AddDemand(Shard(d, 3), d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("reduce_scatter", 1)));
}

TEST_F(ExchangePatternsTest, ShardsThatAllWantAreAnAllGather) {
  for (int d = 0; d < 4; ++d) AddPiece(Shard(d, 4), d, 0), AddDemand(kFull, d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_gather", 1)));
  EXPECT_EQ(ElementsReceivedInAll(), 3 * kRows * kColumns);
}

TEST_F(ExchangePatternsTest, ColumnShardsThatAllWantAreAnAllGatherWithPacking) {
  for (int d = 0; d < 3; ++d) AddPiece(Shard(d, 3, 1), d, d), AddDemand(kFull, d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_gather", 1)));
  EXPECT_GT(MoveTasks(), 0);
}

TEST_F(ExchangePatternsTest, ReshardingBetweenDimensionsIsAnAllToAll) {
  for (int d = 0; d < 4; ++d) AddPiece(Shard(d, 4), d, d), AddDemand(Shard(d, 4, 1), d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_to_all", 1)));
  EXPECT_EQ(ElementsReceivedInAll(), kRows * kColumns * 3 / 4);
}

TEST_F(ExchangePatternsTest, DataParallelTimesTensorParallelIsOneAllReducePerShard) {
  for (int n = 0; n < 2; ++n) {
    for (int t = 0; t < 2; ++t)
      AddPiece(Shard(t, 2), 2 * n + t, n), AddDemand(Shard(t, 2), 2 * n + t);
  }
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 2)));
}

TEST_F(ExchangePatternsTest, ReplicasReduceAmongThemselves) {
  for (int r = 0; r < 2; ++r) {
    for (int k = 0; k < 2; ++k) AddPiece(kFull, 2 * r + k, k);
  }
  for (int d = 0; d < 4; ++d) AddDemand(kFull, d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 2)));
}

TEST_F(ExchangePatternsTest, ReplicasOnPermutedDevicesAddInTheOrderOfTerms) {
  for (int k = 0; k < 3; ++k) AddPiece(kFull, k, k), AddPiece(kFull, 5 - k, k);
  for (int d = 0; d < 6; ++d) AddDemand(kFull, d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 2)));
  EXPECT_THAT(AllReduceGroups(), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(5, 4, 3)));
  ExpectFloatCopiesAgree();
}

TEST_F(ExchangePatternsTest, LayersAreNotMixedWithOtherSumsOfTheirDevices) {
  // The upper half is summed on all six devices, the lower one on the first three only: were the
  // two in one all-reduce there, elements would be at other places than on the last three.
  for (int k = 0; k < 3; ++k) {
    AddPiece(kFull, k, k), AddPiece(Shard(0, 2), 3 + k, k);
    AddDemand(kFull, k), AddDemand(Shard(0, 2), 3 + k);
  }
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 3)));
  ExpectFloatCopiesAgree();
}

TEST_F(ExchangePatternsTest, ReplicasThatShareOutTermsOtherwiseAreServedByOneSum) {
  AddPiece(kFull, 0, 0), AddPiece(kFull, 0, 1), AddPiece(kFull, 1, 2);
  AddPiece(kFull, 2, 0), AddPiece(kFull, 3, 1), AddPiece(kFull, 3, 2);
  for (int d = 0; d < 4; ++d) AddDemand(kFull, d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("broadcast", 1), Pair("transfers", 1)));
  ExpectFloatCopiesAgree();
}

TEST_F(ExchangePatternsTest, HalosArePointToPoint) {
  for (int64_t d = 0; d < 4; ++d) {
    AddPiece(Shard(d, 4), static_cast<int>(d), static_cast<int>(d));
    AddDemand({{std::max<int64_t>(0, 2 * d - 1), std::min<int64_t>(8, 2 * d + 3)}, {0, kColumns}},
              static_cast<int>(d));
  }
  EXPECT_THAT(Patterns(), ElementsAre(Pair("transfers", 1)));
  EXPECT_EQ(ElementsReceivedInAll(), 6 * kColumns);
}

// Blocks of rows into blocks of columns that have a column on each side in common with their
// neighbours: each pair of devices has one message, whatever else wants some of it.
TEST_F(ExchangePatternsTest, HalosOfOtherBlocksAreOneTransferForEachPair) {
  c_.shape = {4, 12};
  for (int64_t d = 0; d < 4; ++d) {
    AddPiece({{d, d + 1}, {0, 12}}, static_cast<int>(d), static_cast<int>(d));
    AddDemand({{0, 4}, {std::max<int64_t>(0, 3 * d - 1), std::min<int64_t>(12, 3 * d + 4)}},
              static_cast<int>(d));
  }
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_to_all", 1)));
  EXPECT_EQ(ElementsReceivedInAll(), 3 * (4 + 5 + 5 + 4));
}

// Whatever a device's demands have in common comes once.
TEST_F(ExchangePatternsTest, WhatSeveralDemandsOfADeviceWantIsSentOnce) {
  for (const int64_t rows : {1, 2}) {
    c_ = {.shape = {12, 6}};
    for (int64_t d = 0; d < 3; ++d) {
      AddPiece({{0, 12}, BlockOf(6, 3, d)}, static_cast<int>(d), static_cast<int>(d));
    }
    for (int64_t k = 0; k + rows <= 12; ++k) AddDemand({{k, k + rows}, {0, 6}}, 3);
    EXPECT_THAT(Patterns(), ElementsAre(Pair("transfers", 1)));
    EXPECT_EQ(ElementsReceivedInAll(), 12 * 6) << rows;
  }
}

TEST_F(ExchangePatternsTest, OfOneHolderWhatManyWantIsSentOnceAndPassedOn) {
  // Each but the first wants all rows but one, another one each.
  c_.shape = {8, 5};
  AddPiece(Box::Full(c_.shape), 0, 0);
  for (int d = 1; d < 5; ++d) {
    AddDemand({{0, 8}, {0, d}}, d), AddDemand({{0, 8}, {d, 5}}, 9 - d);
  }
  const auto patterns = Patterns();
  EXPECT_GE(patterns.count("broadcast"), 1u);
}

TEST_F(ExchangePatternsTest, WhatADeviceHoldsIsNeitherCutNorMovedForOthers) {
  // Copies everywhere, wanted whole and, by one device each, in part.
  for (int d = 0; d < 4; ++d) AddPiece(kFull, d, 0), AddDemand(kFull, d), AddDemand(Shard(d, 4), d);
  EXPECT_TRUE(Patterns().empty());
  ASSERT_EQ(MoveTasks(), 4);
  for (const Task& task : graph_.tasks()) {
    const auto* body = std::get_if<MoveTask>(&task.body);
    if (body == nullptr) continue;
    ASSERT_EQ(body->moves.size(), 1u);
    EXPECT_EQ(body->moves[0].region.volume(), kRows * kColumns / 4);
  }
}

TEST_F(ExchangePatternsTest, ADemandInsideAnotherOneOfItsDeviceIsACopyOfIt) {
  // Shards that two other devices want whole; one of them its first rows, too, by themselves.
  const Box rows{{0, 3}, {0, kColumns}};
  for (int d = 0; d < 2; ++d) AddPiece(Shard(d, 2), d, d);
  AddDemand(rows, 2), AddDemand(kFull, 2), AddDemand(kFull, 3);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("broadcast", 2)));
  EXPECT_EQ(ElementsReceivedInAll(), 2 * kRows * kColumns);
  std::vector<Box> copied;  // on the device that wants both
  for (const Task& task : graph_.tasks()) {
    const auto* body = std::get_if<MoveTask>(&task.body);
    if (body == nullptr || body->device != DeviceId(2)) continue;
    for (const Move& move : body->moves) copied.push_back(move.region);
  }
  EXPECT_THAT(copied, ElementsAre(rows));
}

TEST_F(ExchangePatternsTest, SumsOfPartsAreCopiesOfTheWholeSum) {
  for (int d = 0; d < 4; ++d) AddPiece(kFull, d, d), AddDemand(kFull, d), AddDemand(Shard(d, 4), d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 1)));
  EXPECT_EQ(MoveTasks(), 4);
  ExpectFloatCopiesAgree();
}

TEST_F(ExchangePatternsTest, HaloGradientsArePointToPoint) {
  for (int64_t d = 0; d < 4; ++d) {
    AddPiece({{std::max<int64_t>(0, 2 * d - 1), std::min<int64_t>(8, 2 * d + 3)}, {0, kColumns}},
             static_cast<int>(d), static_cast<int>(d));
    AddDemand(Shard(d, 4), static_cast<int>(d));
  }
  EXPECT_THAT(Patterns(), ElementsAre(Pair("transfers", 1)));
  EXPECT_EQ(ElementsReceivedInAll(), 6 * kColumns);
}

TEST_F(ExchangePatternsTest, TwoConsumersAddOnTheirDeviceBeforeOneAllReduce) {
  for (int d = 0; d < 4; ++d) {
    AddPiece(kFull, d, d), AddPiece(kFull, d, 4 + d);
    AddDemand(kFull, d);
  }
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 1)));
  EXPECT_EQ(MoveTasks(), 4);
}

TEST_F(ExchangePatternsTest, TermsOfADeviceOverOneBoxAreAddedOnceBeforeTheyAreCut) {
  // Three gradients of a tensor on each of four devices, each of which wants a shard of their sum.
  for (int d = 0; d < 4; ++d) {
    for (int k = 0; k < 3; ++k) AddPiece(kFull, d, 4 * k + d);
    AddDemand(Shard(d, 4, 1), d);
  }
  EXPECT_THAT(Patterns(), ElementsAre(Pair("reduce_scatter", 1)));
  EXPECT_EQ(MovesOf(TaskKey::Phase::kSum), 4 * 2);
  ExpectFloatCopiesAgree();
}

TEST_F(ExchangePatternsTest, CopiesOfTermsAreAddedByEachOfTheirDevices) {
  for (int d = 0; d < 4; ++d) {
    for (int k = 0; k < 2; ++k) AddPiece(kFull, d, 2 * (d / 2) + k);
    AddDemand(kFull, d);
  }
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 2)));
  EXPECT_EQ(MovesOf(TaskKey::Phase::kSum), 4);
  ExpectFloatCopiesAgree();
}

TEST_F(ExchangePatternsTest, TermsThatOtherDevicesHoldApartStayApart) {
  // Device 2 has a copy of the first term of device 0 only, and the second term of device 1 is of a part.
  for (int d = 0; d < 2; ++d) AddPiece(kFull, d, 2 * d), AddDemand(kFull, d);
  AddPiece(kFull, 0, 1), AddPiece(Shard(0, 2), 1, 3), AddPiece(kFull, 2, 0);
  TensorExchange x{.tensor = TensorId(0), .pieces = c_.pieces};
  x.piece_buffers.assign(c_.pieces.size(), kNoBuffer);
  JoinTerms(x);
  EXPECT_EQ(x.pieces.size(), c_.pieces.size());
  EXPECT_TRUE(x.added.empty());
}

TEST_F(ExchangePatternsTest, BiasGradientsOfFirstPartsStayBetweenThem) {
  for (int d : {0, 2}) AddPiece(kFull, d, d), AddDemand(kFull, d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 1)));
  EXPECT_EQ(BytesReceived(graph_)[1].value(), 0);
}

TEST_F(ExchangePatternsTest, FourTermsForTwoOtherDevicesAreSentOnceAndPassedOn) {
  for (int d = 0; d < 4; ++d) AddPiece(kFull, d, d);
  AddDemand(kFull, 4), AddDemand(kFull, 5);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("transfers", 2)));
  EXPECT_EQ(ElementsReceivedInAll(), 5 * kRows * kColumns);
}

TEST_F(ExchangePatternsTest, OneHolderAndSeveralWantersAreABroadcast) {
  AddPiece(kFull, 1, 0);
  for (int d = 0; d < 4; ++d) AddDemand(kFull, d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("broadcast", 1)));
  EXPECT_EQ(ElementsReceivedInAll(), 3 * kRows * kColumns);
}

TEST_F(ExchangePatternsTest, SmallBroadcastsGoWithTheTransfers) {
  // Two holders, each with two other devices that want its half.
  for (int h = 0; h < 2; ++h) {
    AddPiece(Shard(h, 2), h, 0), AddDemand(Shard(h, 2), h);
    for (int d : {2 + h, 4 + h}) AddDemand(Shard(h, 2), d);
  }
  const int64_t moved = 2 * kRows / 2 * kColumns;
  c_.options.exchange.direct_elements = moved - 1;
  EXPECT_THAT(Patterns(), ElementsAre(Pair("broadcast", 2)));
  c_.options.exchange.direct_elements = moved;
  EXPECT_THAT(Patterns(), ElementsAre(Pair("transfers", 2)));
  EXPECT_EQ(ElementsReceivedInAll(), 2 * moved);
}

TEST_F(ExchangePatternsTest, BroadcastsOfManyOwnersToTheSameDevicesAreGatheredByThese) {
  // Owners of rows; two pairs of devices that want half of the columns each.
  const auto of_owners = [this](int owners) {
    c_.pieces.clear(), c_.demands.clear();
    for (int k = 0; k < owners; ++k) AddPiece(Shard(k, owners), k, 0);
    for (int d : {0, 1, 2, 3}) AddDemand(Shard(d / 2, 2, 1), owners + d);
    return Patterns();
  };
  EXPECT_THAT(of_owners(4), ElementsAre(Pair("broadcast", 8)));
  EXPECT_THAT(of_owners(6), ElementsAre(Pair("all_gather", 2), Pair("transfers", 2)));
  EXPECT_EQ(ElementsReceivedInAll(), 2 * kRows * kColumns);
}

TEST_F(ExchangePatternsTest, SumsOfAllPairsAreSentAtOnce) {
  int column = 0;
  for (int d = 0; d < 4; ++d) {
    for (int other = d + 1; other < 4; ++other, ++column) {
      for (int device : {d, other}) {
        AddPiece(Shard(column, 6, 1), device, device), AddDemand(Shard(column, 6, 1), device);
      }
    }
  }
  EXPECT_THAT(Patterns(), ElementsAre(Pair("transfers", 1)));
  EXPECT_EQ(ElementsReceivedInAll(), 2 * kRows * kColumns);
  ExpectFloatCopiesAgree();
}

TEST_F(ExchangePatternsTest, SmallSumsOfMoreGroupsThanDevicesAreSentAtOnce) {
  // Each three of five devices sum a box of three elements.
  int boxes = 0;
  for (int without = 0; without < 5; ++without) {
    for (int other = without + 1; other < 5; ++other, ++boxes) {
      Box box = Shard(boxes % 8, 8);
      box[1] = BlockOf(kColumns, 2, boxes / 8);
      for (int d = 0; d < 5; ++d) {
        if (d != without && d != other) AddPiece(box, d, d), AddDemand(box, d);
      }
    }
  }
  const int64_t moved_by_one = 2 * 2 * 3;
  c_.options.exchange.direct_elements = moved_by_one - 1;
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 10)));
  c_.options.exchange.direct_elements = moved_by_one;
  EXPECT_THAT(Patterns(), ElementsAre(Pair("transfers", 2)));
  EXPECT_EQ(ElementsReceivedInAll(), 10 * moved_by_one);
  ExpectFloatCopiesAgree();
}

TEST_F(ExchangePatternsTest, TransfersOfADeviceShareOneStagingBufferEachWay) {
  constexpr int kDevices = 3;
  c_.options.exchange.collectives = false;
  for (int d = 0; d < kDevices; ++d) {
    AddPiece(Shard(d, kDevices, 1), d, 0), AddDemand(Shard((d + 1) % kDevices, kDevices), d);
  }
  EXPECT_THAT(Patterns(), ElementsAre(Pair("transfers", 1)));
  const auto is_staging = [](const Buffer& buffer) { return buffer.kind == BufferKind::kStaging; };
  EXPECT_LE(std::count_if(graph_.buffers().begin(), graph_.buffers().end(), is_staging),
            2 * kDevices);
  for (const Task& task : graph_.tasks()) {
    const auto* body = std::get_if<TransferTask>(&task.body);
    if (body == nullptr) continue;
    EXPECT_EQ(body->transfers.size(), static_cast<size_t>(kDevices * (kDevices - 1)));
  }
}

TEST_F(ExchangePatternsTest, ManyTermsForOneOfTheirDevicesAreAReduce) {
  for (int d = 0; d < 4; ++d) AddPiece(kFull, d, d);
  AddDemand(kFull, 2);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("reduce", 1)));
}

TEST_F(ExchangePatternsTest, CopiesAreNeverAdded) {
  for (int d = 0; d < 3; ++d) AddPiece(kFull, d, 0), AddDemand(kFull, d);
  EXPECT_TRUE(Patterns().empty());
  EXPECT_EQ(MoveTasks(), 0);
}

TEST_F(ExchangePatternsTest, ADestinationTakesACopyOnItsOwnNode) {
  AddPiece(kFull, 0, 0), AddPiece(kFull, 2, 0);
  AddDemand(kFull, 1), AddDemand(kFull, 3);
  const std::vector<int32_t> nodes = {0, 0, 1, 1};
  c_.options.exchange.node_of_device = nodes;
  EXPECT_THAT(Patterns(), ElementsAre(Pair("transfers", 2)));
  for (const Task& task : graph_.tasks()) {
    const auto* transfers = std::get_if<TransferTask>(&task.body);
    if (transfers == nullptr) continue;
    for (const Transfer& t : transfers->transfers) {
      EXPECT_EQ(nodes[t.from.index()], nodes[t.to.index()]);
    }
  }
}

TEST_F(ExchangePatternsTest, WhatNobodyComputesIsZero) {
  AddPiece(Shard(0, 4), 0, 0);
  AddDemand(kFull, 0), AddDemand(Shard(3, 4), 1);
  EXPECT_TRUE(Patterns().empty());
}

TEST_F(ExchangePatternsTest, ScalarsTravelLikeOtherTensors) {
  c_ = {.shape = {}};
  for (int d = 0; d < 3; ++d) AddPiece(Box(0), d, d), AddDemand(Box(0), d);
  EXPECT_THAT(Patterns(), ElementsAre(Pair("all_reduce", 1)));
}

TEST_F(ExchangePatternsTest, ManyDevicesCostOverlapsNotPairs) {
  // 64 x 64 resharding: 4096 cells, each sent once.
  c_ = {.shape = {64, 64}};
  for (int d = 0; d < 64; ++d) {
    c_.pieces.push_back({{{d, d + 1}, {0, 64}}, DeviceId(d), d});
    c_.demands.push_back({{{0, 64}, {d, d + 1}}, DeviceId(d)});
  }
  const SolvedExchange solved = Exchange(c_.pieces, c_.demands, {});
  const auto steps = solved.steps();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].kind, ExchangeStep::Kind::kLocal);
  EXPECT_EQ(steps[1].kind, ExchangeStep::Kind::kAllToAll);
  EXPECT_EQ(ElementsSent(steps[1]), 64 * 63);
}

}  // namespace
}  // namespace partita

#include "graph/partition/overlap_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "graph/partition/join_terms.h"
#include "tests/graph/partition/random_exchange.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Blocks of a shape split that many ways along each dimension, with so many elements more on each
// side that has some.
std::vector<Box> Blocks(const Shape& shape, const std::vector<int64_t>& ways, int64_t halo) {
  std::vector<Box> boxes = {Box::Full(shape)};
  for (size_t d = 0; d < ways.size(); ++d) {
    std::vector<Box> next;
    for (const Box& box : boxes) {
      for (int64_t k = 0; k < ways[d]; ++k) {
        const Interval block = BlockOf(shape[d], ways[d], k);
        next.push_back(box);
        next.back()[static_cast<int>(d)] = {std::max<int64_t>(0, block.lo - halo),
                                            std::min<int64_t>(shape[d], block.hi + halo)};
      }
    }
    boxes = std::move(next);
  }
  return boxes;
}

class OverlapSumsTest : public ::testing::Test {
 protected:
  // Adds a term for each box, on these devices in turn.
  void AddTerms(const std::vector<Box>& boxes, const std::vector<int>& devices) {
    for (size_t k = 0; k < boxes.size(); ++k) AddTerm(boxes[k], devices[k % devices.size()]);
  }
  void AddTerm(const Box& box, int device) {
    c_.pieces.push_back({box, DeviceId(device), static_cast<int64_t>(c_.pieces.size())});
    c_.devices = std::max(c_.devices, device + 1);
  }
  void AddDemands(const std::vector<Box>& boxes, const std::vector<int>& devices) {
    for (size_t k = 0; k < boxes.size(); ++k) {
      c_.demands.push_back({boxes[k], DeviceId(devices[k % devices.size()])});
      c_.devices = std::max(c_.devices, c_.demands.back().device.value() + 1);
    }
  }
  // Checks every element.
  ExchangeOutcome Outcome() {
    c_.persistent.assign(c_.pieces.size(), false);
    c_.preset.assign(c_.demands.size(), -1);
    std::mt19937_64 random(1);
    return Ok(CheckExchange(c_, random));
  }
  // Whether sums go by what each piece has of each demand.
  bool AreByOverlap() const {
    TensorExchange x{.pieces = c_.pieces, .demands = c_.demands};
    for (size_t p = 0; p < c_.pieces.size(); ++p) {
      x.piece_buffers.push_back(BufferId(static_cast<int32_t>(p)));
    }
    JoinTerms(x);
    const SolvedExchange solved = Exchange(x.pieces, x.demands, c_.options.exchange);
    return std::ranges::any_of(solved.steps(), [](const ExchangeStep& step) {
      return std::ranges::any_of(step.flows, &Flow::adds);
    });
  }
  uint64_t CheckSeeds(uint64_t first, uint64_t last);

  ExchangeCase c_;
};

size_t CountTransfers(const TaskGraph& graph) {
  size_t transfers = 0;
  for (const Task& task : graph.tasks()) {
    if (const auto* one = std::get_if<TransferTask>(&task.body)) transfers += one->transfers.size();
  }
  return transfers;
}

size_t CountMoves(const TaskGraph& graph, TaskKey::Phase phase, MoveSignature::Kind kind) {
  size_t count = 0;
  for (const Task& task : graph.tasks()) {
    if (task.key.phase != phase) continue;
    for (const Move& move : std::get<MoveTask>(task.body).moves) count += move.kind == kind;
  }
  return count;
}

const std::vector<int> kNine = {0, 1, 2, 3, 4, 5, 6, 7, 8};

// Gradients of blocks with a halo on every side: regions would be cut at the ends of all of them.
TEST_F(OverlapSumsTest, HalosAreOneTransferForEachNeighbour) {
  c_.shape = {12, 12};
  AddTerms(Blocks(c_.shape, {3, 3}, 1), kNine);
  AddDemands(Blocks(c_.shape, {3, 3}, 0), kNine);
  const ExchangeOutcome outcome = Outcome();
  constexpr size_t kNeighbours = 4 * 3 + 4 * 5 + 8;
  EXPECT_THAT(outcome.patterns, ElementsAre(Pair("transfers", 1)));
  EXPECT_EQ(CountTransfers(outcome.graph), kNeighbours);
  const auto unpacked = [&](MoveSignature::Kind kind) {
    return CountMoves(outcome.graph, TaskKey::Phase::kUnpack, kind);
  };
  EXPECT_EQ(unpacked(MoveSignature::Kind::kCopy), 9);
  EXPECT_EQ(unpacked(MoveSignature::Kind::kAdd), kNeighbours);
  EXPECT_EQ(CountMoves(outcome.graph, TaskKey::Phase::kFill, MoveSignature::Kind::kFill), 0);
}

// Results of two operators: what the first one has of a demand is all of it, and is added to.
TEST_F(OverlapSumsTest, PiecesAreAddedToInPlace) {
  c_.shape = {8, 6};
  AddTerms(Blocks(c_.shape, {4, 1}, 0), {0, 1, 2, 3});
  AddTerms(Blocks(c_.shape, {1, 3}, 0), {0, 1, 2});
  AddDemands(Blocks(c_.shape, {4, 1}, 0), {0, 1, 2, 3});
  const ExchangeOutcome outcome = Outcome();
  EXPECT_EQ(CountTransfers(outcome.graph), 9);
  EXPECT_EQ(CountMoves(outcome.graph, TaskKey::Phase::kUnpack, MoveSignature::Kind::kCopy), 0);
  EXPECT_EQ(CountMoves(outcome.graph, TaskKey::Phase::kUnpack, MoveSignature::Kind::kAdd), 12);
}

TEST_F(OverlapSumsTest, WhatIsOnlyAddedToIsZeroBefore) {
  c_.shape = {9};
  AddTerm({{0, 3}}, 1), AddTerm({{2, 5}}, 2), AddTerm({{4, 8}}, 0);
  AddDemands({{{0, 9}}}, {0});
  const ExchangeOutcome outcome = Outcome();
  EXPECT_TRUE(AreByOverlap());
  EXPECT_EQ(CountMoves(outcome.graph, TaskKey::Phase::kFill, MoveSignature::Kind::kFill), 1);
}

// A sum that each device has a term of, and blocks of another operator: cells would be those of blocks and
// demands, each summed over all devices.
TEST_F(OverlapSumsTest, BlocksAreAddedToWhatACollectiveSums) {
  c_.shape = {9, 9};
  for (int d : kNine) AddTerm(Box::Full(c_.shape), d);
  AddTerms(Blocks(c_.shape, {1, 9}, 0), kNine);
  AddDemands(Blocks(c_.shape, {9, 1}, 0), kNine);
  const ExchangeOutcome outcome = Outcome();
  EXPECT_TRUE(AreByOverlap());
  EXPECT_THAT(outcome.patterns, ElementsAre(Pair("reduce_scatter", 1), Pair("transfers", 1)));
  EXPECT_EQ(CountTransfers(outcome.graph), 9 * 8);
  EXPECT_EQ(CountMoves(outcome.graph, TaskKey::Phase::kUnpack, MoveSignature::Kind::kAdd), 9 * 9);
}

TEST_F(OverlapSumsTest, FewTermsOfOneBoxAreForACollective) {
  c_.shape = {8, 6};
  for (int d = 0; d < 4; ++d) AddTerm(Box::Full(c_.shape), d);
  AddTerms(Blocks(c_.shape, {1, 2}, 0), {0, 1});
  AddDemands(Blocks(c_.shape, {4, 1}, 0), {0, 1, 2, 3});
  EXPECT_FALSE(AreByOverlap());
  EXPECT_THAT(Outcome().patterns, ElementsAre(Pair("reduce_scatter", 1)));
}

TEST_F(OverlapSumsTest, WhatSeveralWantIsSummedOnce) {
  c_.shape = {8, 6};
  AddTerms(Blocks(c_.shape, {2, 1}, 1), {0, 1});
  AddDemands(Blocks(c_.shape, {2, 1}, 1), {0, 1});
  EXPECT_FALSE(AreByOverlap());
  Outcome();
}

// Two operators on each of two devices, whose results nearly are over one box, for two others.
TEST_F(OverlapSumsTest, WhatADeviceCanAddBeforeIsSentOnce) {
  c_.shape = {16};
  AddTerm({{0, 9}}, 0), AddTerm({{0, 10}}, 0), AddTerm({{9, 16}}, 1), AddTerm({{8, 16}}, 1);
  AddDemands(Blocks(c_.shape, {2}, 0), {2, 3});
  EXPECT_FALSE(AreByOverlap());
  int64_t received = 0;
  for (Bytes bytes : BytesReceived(Outcome().graph)) received += bytes.value();
  EXPECT_EQ(received / SizeOf(c_.dtype), 10 + 8);
}

TEST_F(OverlapSumsTest, LargestTermsAreNoSums) {
  c_.shape = {12, 12};
  c_.options.exchange.reduction = Reduction::kMax;
  AddTerms(Blocks(c_.shape, {3, 3}, 1), kNine);
  AddDemands(Blocks(c_.shape, {3, 3}, 0), kNine);
  EXPECT_FALSE(AreByOverlap());
  Outcome();
}

// A shape, and results of one to three operators, each split in its own way, for blocks of it.
class RandomSums {
 public:
  explicit RandomSums(std::mt19937_64& random) : random_(random) {}

  ExchangeCase Run() {
    const int rank = 1 + Below(3);
    for (int d = 0; d < rank; ++d) c_.shape.push_back(2 + Below(rank > 2 ? 6 : 12));
    const bool is_summed = Below(3) == 0;
    c_.devices = is_summed ? 8 + Below(2) : 4 + Below(6);
    const int operators = 1 + Below(3);
    for (int k = 0; k < operators; ++k) {
      const int first = Below(c_.devices);
      for (const Box& box : AnyBlocks(Below(3))) {
        const auto term = static_cast<int32_t>(c_.pieces.size());
        c_.pieces.push_back({box, DeviceId((first + term) % c_.devices), term});
        c_.persistent.push_back(false);
      }
    }
    if (is_summed) AddSummed();
    for (const Box& box : AnyBlocks(0)) {
      c_.demands.push_back({box, AnyDevice()});
      c_.preset.push_back(-1);
    }
    if (Below(2) == 0) c_.options.exchange.direct_elements = int64_t{1} << Below(8);
    return std::move(c_);
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  DeviceId AnyDevice() { return DeviceId(Below(c_.devices)); }
  // Adds terms of one box on eight devices.
  void AddSummed() {
    const std::vector<Box> boxes = AnyBlocks(Below(2));
    for (const Box& box : boxes) {
      if (&box != boxes.data() && Below(2) == 0) continue;
      for (int k = 0; k < 8; ++k) {
        const auto term = static_cast<int32_t>(c_.pieces.size());
        c_.pieces.push_back({box, DeviceId(k), term});
        c_.persistent.push_back(false);
      }
    }
  }
  std::vector<Box> AnyBlocks(int64_t halo) {
    std::vector<int64_t> ways;
    for (int64_t extent : c_.shape)
      ways.push_back(1 + Below(std::min(4, static_cast<int>(extent))));
    return Blocks(c_.shape, ways, halo);
  }

  std::mt19937_64& random_;
  ExchangeCase c_;
};

// Checks every element of random cases. Returns how many of them have sums by overlap.
uint64_t OverlapSumsTest::CheckSeeds(uint64_t first, uint64_t last) {
  uint64_t by_overlap = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    std::mt19937_64 random(seed);
    c_ = RandomSums(random).Run();
    const auto outcome = CheckExchange(c_, random);
    EXPECT_TRUE(outcome.ok()) << "seed " << seed << ": " << outcome.status() << "\n"
                              << ToString(c_);
    if (!outcome.ok()) break;
    by_overlap += AreByOverlap();
  }
  return by_overlap;
}

TEST_F(OverlapSumsTest, EveryDemandIsTheSumOfItsTerms) {
  constexpr uint64_t kSeeds = CasesOf(3000);
  EXPECT_GT(CheckSeeds(0, kSeeds), kSeeds / 4);
}

TEST_F(OverlapSumsTest, LongRunOfManyMoreSeeds) {
  constexpr uint64_t kFirst = 1000000, kSeeds = 200000;
  EXPECT_GT(CheckSeeds(kFirst, kFirst + kSeeds), kSeeds / 4);
}

}  // namespace
}  // namespace partita

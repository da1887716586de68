// Groups of like operators that are split as those around them.
#include "planner/search/improve_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "graph/parallel/decision.h"
#include "planner/search/group_changes.h"
#include "planner/space/like_operators.h"
#include "planner/space/moves.h"
#include "planner/space/neighbour_splits.h"
#include "tests/planner/fixture.h"

namespace partita {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

TEST(NeighbourSplitsTest, HaveThoseOfTheOperatorsAround) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const Strategy all = Ok(DataParallel(at.graph, at.machine->topology));
  for (OpId op : at.space.operators()) {
    Strategy strategy = all;
    strategy.configs[op.index()] = Unsplit(at.graph.rule(op), DeviceId(2));
    const std::vector<ParallelConfig> splits = NeighbourSplits(at.space, strategy, op);
    EXPECT_THAT(splits, Contains(all.configs[op.index()])) << at.graph.op(op).name;
    for (const ParallelConfig& split : splits) {
      EXPECT_TRUE(at.space.Fits(op, split));
      EXPECT_NE(split, strategy.configs[op.index()]);
      EXPECT_EQ(std::count(splits.begin(), splits.end(), split), 1);
    }
  }
}

TEST(NeighbourSplitsTest, OfALossHaveTheClassesOfTheLayerBeforeIt) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  const OpId fc = at.Op("fc"), loss = at.Op("loss");
  Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  ParallelConfig& by_class = strategy.configs[fc.index()];
  std::fill(by_class.degrees.begin(), by_class.degrees.end(), 1);
  by_class.degrees[static_cast<size_t>(at.graph.rule(fc).FindLoop("o"))] = 4;
  const auto wanted = WithProducersBlocks(at.space, fc, by_class, loss);
  ASSERT_TRUE(wanted.has_value());
  EXPECT_THAT(NeighbourSplits(at.space, strategy, loss), Contains(*wanted));
}

TEST(NeighbourSplitsTest, HaveThoseOfLikeOperators) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  const OpId cell = at.Op("lstm.0.5"), like = at.Op("lstm.0.9");
  strategy.configs[like.index()] = Unsplit(at.graph.rule(like), DeviceId(3));
  EXPECT_THAT(NeighbourSplits(at.space, strategy, cell), Contains(strategy.configs[like.index()]));
}

TEST(TradedSplitsTest, MoveAFactorOfOneDegreeToAnother) {
  const Workplace at("lenet", 64, "p100-4x4", 8);
  const Strategy all = Ok(DataParallel(at.graph, at.machine->topology));
  const OpId conv = at.Op("conv1");
  const auto n = static_cast<size_t>(at.graph.rule(conv).FindLoop("n"));
  const auto rows = static_cast<size_t>(at.graph.rule(conv).FindLoop("oh"));
  const ParallelConfig& own = all.configs[conv.index()];
  const std::vector<ParallelConfig> splits = TradedSplits(at.space, all, conv);
  for (int32_t factor : {2, 4}) {
    ParallelConfig wanted = own;
    wanted.degrees[n] /= factor;
    wanted.degrees[rows] = factor;
    EXPECT_THAT(splits, Contains(wanted));
    wanted.degrees[rows] = 1;
    wanted.replicas = factor;
    EXPECT_THAT(splits, Contains(wanted));
  }
  for (const ParallelConfig& split : splits) {
    EXPECT_TRUE(at.space.Fits(conv, split));
    EXPECT_EQ(split.devices, own.devices);
    EXPECT_NE(split, own);
  }
}

// Two devices become the four around them, or either of them.
TEST(ResizedSplitsTest, DoubleOrHalveADegreeWithTheDevices) {
  const Workplace at("lenet", 64, "p100-4x4", 8);
  Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  const OpId conv = at.Op("conv1");
  const auto n = static_cast<size_t>(at.graph.rule(conv).FindLoop("n"));
  const auto rows = static_cast<size_t>(at.graph.rule(conv).FindLoop("oh"));
  ParallelConfig& own = strategy.configs[conv.index()];
  own.degrees[n] = 2;
  own.devices = DeviceRange(6, 2);
  const std::vector<ParallelConfig> splits = ResizedSplits(at.space, strategy, conv);
  std::vector<ParallelConfig> wanted(5, own);
  for (ParallelConfig* wide : {&wanted[0], &wanted[1], &wanted[2]}) {
    wide->devices = DeviceRange(4, 4);
  }
  wanted[0].degrees[n] = 4;
  wanted[1].degrees[rows] = 2;
  wanted[2].replicas = 2;
  wanted[3].degrees[n] = wanted[4].degrees[n] = 1;
  wanted[3].devices = DeviceRange(6, 1);
  wanted[4].devices = DeviceRange(7, 1);
  for (const ParallelConfig& one : wanted) EXPECT_THAT(splits, Contains(one));
  for (const ParallelConfig& split : splits) EXPECT_TRUE(at.space.Fits(conv, split));

  own.devices = {DeviceId(1), DeviceId(6)};
  EXPECT_TRUE(ResizedSplits(at.space, strategy, conv).empty());
  own.degrees[n] = 8;
  own.devices = DeviceRange(0, 8);
  for (const ParallelConfig& split : ResizedSplits(at.space, strategy, conv)) {
    EXPECT_THAT(split.devices, AnyOf(DeviceRange(0, 4), DeviceRange(4, 4)));
  }
}

TEST(ShiftedSplitsTest, KeepTheSplitAndStayOnTheMachine) {
  const Workplace at("lenet", 64, "p100-4x4", 8);
  Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  const OpId conv = at.Op("conv1");
  EXPECT_TRUE(ShiftedSplits(at.space, strategy, conv).empty());
  ParallelConfig& own = strategy.configs[conv.index()];
  own.degrees[static_cast<size_t>(at.graph.rule(conv).FindLoop("n"))] = 2;
  own.devices = DeviceRange(6, 2);
  std::vector<std::vector<DeviceId>> devices;
  for (const ParallelConfig& split : ShiftedSplits(at.space, strategy, conv)) {
    EXPECT_EQ(split.degrees, own.degrees);
    devices.push_back(split.devices);
  }
  EXPECT_THAT(devices,
              UnorderedElementsAre(DeviceRange(0, 2), DeviceRange(2, 2), DeviceRange(4, 2)));
}

TEST(EvenPlacementTest, IsOfEachKindAndValid) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  for (int32_t weight : at.space.weights()) {
    std::vector<WeightPlacement> placements;
    for (size_t kind = 0; kind < kEvenPlacements; ++kind) {
      placements.push_back(EvenPlacement(at.space, weight, kind));
      Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
      Decide(at.graph, strategy, WeightDecision{weight, placements.back()});
      EXPECT_EQ(ValidateStrategy(at.graph, strategy, 4), absl::OkStatus());
    }
    EXPECT_EQ(placements[0], WeightPlacement());
    EXPECT_TRUE(!placements[1].parameter.has_value() && placements[1].update.has_value());
    EXPECT_TRUE(placements[2].parameter.has_value() && placements[2].update.has_value());
  }
}

TEST(ChainBehindTest, EndsWhereWeightsAreMultiplied) {
  const Workplace at("alexnet", 64, "p100-4x4", 4);
  std::vector<std::string> names;
  for (OpId op : ChainBehind(at.graph, at.Op("features.0"))) names.push_back(at.graph.op(op).name);
  EXPECT_THAT(names, ElementsAre("features.1", "features.2"));
  EXPECT_TRUE(ChainBehind(at.graph, at.Op("loss")).empty());
}

TEST(ReadersBehindTest, AreTheNextOnesThatMultiplyByWeights) {
  const Workplace at("alexnet", 64, "p100-4x4", 4);
  const auto names_of = [&](const std::string& op) {
    std::vector<std::string> names;
    for (const auto& [maker, reader] : ReadersBehind(at.graph, at.Op(op))) {
      names.push_back(at.graph.op(maker).name + " " + at.graph.op(reader).name);
    }
    return names;
  };
  EXPECT_THAT(names_of("features.0"), ElementsAre("features.2 features.3"));
  EXPECT_THAT(names_of("classifier.5"), ElementsAre("classifier.5 classifier.6"));
  EXPECT_TRUE(names_of("loss").empty());
}

TEST(ShapeClassesTest, HoldTheSlicesOfASequence) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  const std::vector<int32_t> classes = ShapeClasses(at.graph), like = LikeClasses(at.graph);
  const auto class_of = [&](const std::string& name) {
    const auto anchors = at.graph.anchors();
    return classes[static_cast<size_t>(std::find(anchors.begin(), anchors.end(), at.Op(name)) -
                                       anchors.begin())];
  };
  EXPECT_EQ(class_of("word0"), class_of("word7"));
  EXPECT_NE(class_of("word0"), class_of("fc"));
  EXPECT_LT(std::set<int32_t>(classes.begin(), classes.end()).size(),
            std::set<int32_t>(like.begin(), like.end()).size());
}

TEST(OperatorGroupsTest, HoldWhatHasOneConfigurationAndNoneTwice) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  const OperatorGroups groups(at.space, kGroupings);
  Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  const OpId moved = at.Op("lstm.1.7");
  strategy.configs[moved.index()] = Unsplit(at.graph.rule(moved), DeviceId(2));
  std::set<std::vector<OpId>> known;
  std::set<OpId> single;
  for (const OperatorGroup& group : groups.Of(strategy)) {
    EXPECT_TRUE(known.insert(group.ops).second);
    for (OpId op : group.ops) {
      EXPECT_EQ(strategy.configs[op.index()], strategy.configs[group.ops[0].index()]);
    }
    if (group.ops.size() == 1) single.insert(group.ops[0]);
  }
  EXPECT_EQ(single.size(), at.space.operators().size());
  std::vector<OpId> others;
  for (OpId op : at.space.AllLike(moved)) {
    if (op != moved) others.push_back(op);
  }
  EXPECT_TRUE(known.contains(others));
}

TEST(OperatorGroupsTest, AreRepeatsButForTheFirstTheLastAndOneBetween) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  const OperatorGroups groups(at.space, kGroupings);
  const auto others = [&] {
    std::vector<std::string> names;
    for (const OperatorGroup& group : groups.Of(strategy)) {
      const std::string& name = at.graph.op(group.ops[0]).name;
      const bool is_step = group.ops.size() == 1 && absl::StartsWith(name, "word");
      if (is_step && !group.is_repeat) names.push_back(name);
    }
    return names;
  };
  EXPECT_THAT(others(), UnorderedElementsAre("word0", "word20", "word39"));
  // One that is split otherwise is like none.
  const OpId other = at.Op("word7");
  strategy.configs[other.index()] = Unsplit(at.graph.rule(other), DeviceId(3));
  EXPECT_THAT(others(), Contains("word7"));
}

TEST(OperatorGroupsTest, RowsAreOfEqualShapesAndOneConfigurationNearestFirst) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  Strategy strategy = Ok(DataParallel(at.graph, at.machine->topology));
  const OperatorGroups groups(at.space, kGroupings);
  const ParallelConfig before = strategy.configs[at.Op("word4").index()];
  for (const char* name : {"word2", "word4", "word37"}) {
    const OpId op = at.Op(name);
    strategy.configs[op.index()] = Unsplit(at.graph.rule(op), DeviceId(3));
  }
  const auto row = [&](const char* from, bool is_behind) {
    std::vector<std::string> names;
    for (OpId op : groups.RowFrom(at.Op(from), is_behind, before, strategy)) {
      names.push_back(at.graph.op(op).name);
    }
    return names;
  };
  EXPECT_THAT(row("word4", false), ElementsAre("word3", "word1", "word0"));
  EXPECT_THAT(row("word35", true), ElementsAre("word36", "word38", "word39"));
  EXPECT_THAT(row("word39", true), testing::IsEmpty());
}

TEST(OperatorGroupsTest, AreOfFreeOperators) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const OpId conv = at.Op("conv2");
  const SearchSpace narrow(at.graph, 4, {SubjectOf(conv)});
  const OperatorGroups groups(narrow, kGroupings);
  const auto found = groups.Of(Ok(DataParallel(at.graph, at.machine->topology)));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].ops, ElementsAre(conv));
  EXPECT_TRUE(groups.IsFree(conv));
  EXPECT_FALSE(groups.IsFree(at.Op("conv1")));
}

// A search whose one start was tried, and its point.
struct Searched {
  Searched(const Workplace& at, Strategy start,
           const SearchOptions& limits = {.evaluations = 10'000})
      : problem{at.evaluator, at.space, {{"start", std::move(start)}}},
        options(limits),
        state(problem, options) {
    EXPECT_EQ(state.TryStarts(), absl::OkStatus());
  }
  WalkPoint point() const { return {"start", state.best(), state.best_time()}; }

  const SearchProblem problem;
  const SearchOptions options;
  SearchState state;
};

// All cells of rnnlm's second layer and their products on one device, all else split by sample.
Strategy SecondLayerInOnePlace(const Workplace& at) {
  Strategy start = Ok(DataParallel(at.graph, at.machine->topology));
  int moved = 0;
  for (OpId op : at.space.operators()) {
    if (at.graph.op(op).name.rfind("lstm.1.", 0) != 0) continue;
    start.configs[op.index()] = Unsplit(at.graph.rule(op), DeviceId(0));
    ++moved;
  }
  EXPECT_GT(moved, 3);
  return start;
}

class ImproveGroupsTest : public testing::TestWithParam<Grouping> {};
INSTANTIATE_TEST_SUITE_P(Groupings, ImproveGroupsTest,
                         testing::Values(Grouping::kOfShapes, Grouping::kOfLike,
                                         Grouping::kSingle));

TEST_P(ImproveGroupsTest, FindsWhatIsFasterAndValid) {
  const Grouping groupings[] = {GetParam()};
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  const Strategy start = SecondLayerInOnePlace(at);
  Searched search(at, start);
  const Nanos before = search.state.best_time();
  const WalkPoint found =
      GroupDescents(search.problem, search.state, groupings).Improve(search.point(), 1'000);
  EXPECT_LT(found.time, before);
  EXPECT_EQ(found.strategy, search.state.best());
  EXPECT_EQ(at.evaluator.EvaluateBriefly(found.strategy, kNoCutoff).time, found.time);
  EXPECT_EQ(ValidateStrategy(at.graph, found.strategy, 4), absl::OkStatus());
}

constexpr Grouping kShapes[] = {Grouping::kOfShapes}, kLike[] = {Grouping::kOfLike},
                   kSingle[] = {Grouping::kSingle};

TEST(ImproveGroupsTest, LikeOperatorsFollowTogether) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  const Strategy start = SecondLayerInOnePlace(at);
  Searched search(at, start);
  // Words are like no others: a step of a layer that reads one may change with it, and no other step.
  std::vector<DecisionSubject> subjects;
  for (OpId op : at.space.recurrent()) subjects.push_back(SubjectOf(op));
  const SearchProblem layers{at.evaluator, SearchSpace(at.graph, 4, subjects), {}};
  const WalkPoint found =
      GroupDescents(layers, search.state, kLike).Improve(search.point(), 10'000);
  EXPECT_NE(found.strategy, start);
  // What had one configuration has one.
  for (OpId op : layers.space.operators()) {
    for (OpId like : layers.space.AllLike(op)) {
      if (start.configs[like.index()] != start.configs[op.index()]) continue;
      EXPECT_EQ(found.strategy.configs[like.index()], found.strategy.configs[op.index()])
          << at.graph.op(like).name << ", " << at.graph.op(op).name;
    }
  }
}

TEST(ImproveGroupsTest, WhatGainsForOneGoesAlongItsRow) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  const Strategy start = SecondLayerInOnePlace(at);
  Searched search(at, start);
  const WalkPoint found =
      GroupDescents(search.problem, search.state, kSingle).Improve(search.point(), 60);
  int changed = 0;
  for (OpId op : at.space.operators()) {
    changed += found.strategy.configs[op.index()] != start.configs[op.index()];
  }
  EXPECT_GT(changed, 60);  // more than were tried
}

TEST(ImproveGroupsTest, LeavesWhatMayNotBeDecided) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const OpId conv = at.Op("conv2");
  Strategy start = Ok(DataParallel(at.graph, at.machine->topology));
  start.configs[conv.index()] = Unsplit(at.graph.rule(conv), DeviceId(2));
  Searched all(at, start);
  const SearchProblem narrow{at.evaluator, SearchSpace(at.graph, 4, {SubjectOf(conv)}), {}};
  const Strategy before = all.state.best();
  const WalkPoint found = GroupDescents(narrow, all.state, kShapes).Improve(all.point(), 1'000);
  EXPECT_NE(found.strategy.configs[conv.index()], before.configs[conv.index()]);
  Strategy undone = found.strategy;
  undone.configs[conv.index()] = before.configs[conv.index()];
  EXPECT_EQ(undone, before);
}

TEST(ImproveGroupsTest, BeginsWithWhatTheStepWaitsForMost) {
  const Workplace at("resnet18", 64, "p100-4x4", 4);
  for (const char* name : {"layer1.1.conv1", "layer2.1.conv1", "layer3.1.conv1"}) {
    const OpId op = at.Op(name);
    Strategy start = Ok(DataParallel(at.graph, at.machine->topology));
    start.configs[op.index()] = Unsplit(at.graph.rule(op), DeviceId(2));
    Searched search(at, start);
    const WalkPoint found =
        GroupDescents(search.problem, search.state, kSingle).Improve(search.point(), 1);
    EXPECT_NE(found.strategy.configs[op.index()], start.configs[op.index()]) << name;
  }
}

// Neither change alone is faster: outputs that are not where the next layer reads them have to be moved.
TEST(ImproveGroupsTest, SplitsALayerByOutputsAndTheNextByInputsAtOnce) {
  const Workplace at("mlp", 4, "k80-16x4", 4);
  Strategy start = Ok(DataParallel(at.graph, at.machine->topology));
  Searched search(at, start);
  const WalkPoint found =
      GroupDescents(search.problem, search.state, kSingle).Improve(search.point(), 10'000);
  int pairs = 0;
  for (OpId op : at.space.operators()) {
    for (const auto& [maker, reader] : ReadersBehind(at.graph, op)) {
      const auto degree = [&](OpId id, const char* loop) {
        const int place = at.graph.rule(id).FindLoop(loop);
        return place < 0 ? 1
                         : found.strategy.configs[id.index()].degrees[static_cast<size_t>(place)];
      };
      pairs += degree(op, "o") > 1 && degree(reader, "i") == degree(op, "o");
    }
  }
  EXPECT_GE(pairs, 1);
}

// Several threads evaluate what attempts behind the first one propose, and drop it where that improves
// the strategy. Budgets end between such attempts and within.
TEST(ImproveGroupsTest, ThreadsThatLookAheadFindAndCountTheSame) {
  const Workplace at("alexnet", 64, "k80-16x4", 16);
  const Strategy start = Ok(DataParallel(at.graph, at.machine->topology));
  for (int64_t budget : {3, 17, 50, 51, 52, 400}) {
    std::vector<WalkPoint> found;
    std::vector<SearchResult> results;
    for (int threads : {1, 2, 5}) {
      Searched search(at, start, {.evaluations = budget, .threads = threads});
      found.push_back(
          GroupDescents(search.problem, search.state, kGroupings).Improve(search.point(), 10'000));
      results.push_back(Ok(search.state.Finish()));
    }
    EXPECT_TRUE(budget < 50 || found[0].strategy != start);
    for (size_t k = 1; k < found.size(); ++k) {
      EXPECT_EQ(found[k].strategy, found[0].strategy) << budget;
      EXPECT_EQ(found[k].time, found[0].time) << budget;
      EXPECT_EQ(results[k].best, results[0].best) << budget;
      EXPECT_EQ(results[k].evaluations, results[0].evaluations) << budget;
      EXPECT_EQ(results[k].accepted, results[0].accepted) << budget;
    }
  }
}

TEST(ImproveGroupsTest, AllGroupingsEndWhereNoneImproves) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  Searched all(at, Ok(DataParallel(at.graph, at.machine->topology)));
  const WalkPoint least =
      GroupDescents(all.problem, all.state, kGroupings).Improve(all.point(), 10'000);
  EXPECT_LT(all.state.evaluations(), 2'000);
  for (const auto& grouping : {kShapes, kLike, kSingle}) {
    const std::span<const Grouping> one(grouping, 1);
    EXPECT_EQ(GroupDescents(all.problem, all.state, one).Improve(least, 10'000).time, least.time);
  }
}

TEST(ImproveGroupsTest, EndsWithItsBudgetAndWhereNothingImproves) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const Strategy start = Ok(DataParallel(at.graph, at.machine->topology));
  Searched few(at, start), all(at, start);
  GroupDescents(few.problem, few.state, kLike).Improve(few.point(), 5);
  EXPECT_GE(few.state.evaluations(), 6);
  EXPECT_LE(few.state.evaluations(), 6 + 20);  // the group at hand is tried to its end
  const WalkPoint least = GroupDescents(all.problem, all.state, kLike).Improve(all.point(), 10'000);
  EXPECT_LE(all.state.best_time(), few.state.best_time());
  EXPECT_LT(all.state.evaluations(), 2'000);
  EXPECT_EQ(GroupDescents(all.problem, all.state, kLike).Improve(least, 10'000).time, least.time);
}

// Kinds of changes overlap: where none improves, each strategy that one leads to is evaluated once.
TEST(ImproveGroupsTest, EvaluatesNothingTwiceWithoutAnImprovement) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  Searched search(at, Ok(DataParallel(at.graph, at.machine->topology)));
  const WalkPoint least =
      GroupDescents(search.problem, search.state, kGroupings).Improve(search.point(), 10'000);
  const OperatorGroups groups(at.space, kGroupings);
  GroupChanges changes(search.problem, groups, search.state);
  std::vector<Strategy> distinct = {least.strategy};
  size_t proposals = 0;
  for (const OperatorGroup& group : groups.Of(least.strategy)) {
    for (size_t kind = 0; kind < kKindsOfChange; ++kind) {
      Strategy strategy = least.strategy;
      for (const ChangeSet& set :
           changes.Of(static_cast<Change>(kind), 0, group.ops, strategy, least.time)) {
        proposals += set.proposals.size();
        for (const auto& proposal : set.proposals) {
          Strategy changed = least.strategy;
          Decide(at.graph, changed, proposal);
          if (std::find(distinct.begin(), distinct.end(), changed) == distinct.end()) {
            distinct.push_back(std::move(changed));
          }
        }
      }
    }
  }
  EXPECT_LT(distinct.size(), proposals);
  const int64_t before = search.state.evaluations();
  GroupDescents(search.problem, search.state, kGroupings).Improve(least, 10'000);
  EXPECT_EQ(search.state.evaluations() - before, static_cast<int64_t>(distinct.size()) - 1);
}

// A descent in many small parts tries what one in a whole does, but for what it was at when a part ended.
TEST(ImproveGroupsTest, GoesOnWhereItEnded) {
  const Workplace at("alexnet", 64, "k80-16x4", 16);
  const Strategy start = Ok(DataParallel(at.graph, at.machine->topology));
  Searched whole(at, start), parts(at, start);
  const WalkPoint found =
      GroupDescents(whole.problem, whole.state, kGroupings).Improve(whole.point(), 10'000);
  GroupDescents descents(parts.problem, parts.state, kGroupings);
  WalkPoint point = parts.point();
  int64_t before = -1;
  int count = 0;
  for (; parts.state.evaluations() > before; ++count) {
    before = parts.state.evaluations();
    point = descents.Improve(std::move(point), 10);
  }
  EXPECT_GT(count, 10);
  EXPECT_EQ(point.strategy, found.strategy);
  EXPECT_EQ(point.time, found.time);
  EXPECT_GE(parts.state.evaluations(), whole.state.evaluations());
  EXPECT_LE(parts.state.evaluations(), whole.state.evaluations() + 4 * count);
}

// Another point than one that a descent has come to begins one of its own.
TEST(ImproveGroupsTest, BeginsAnewFromOtherPoints) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  Searched search(at, Ok(DataParallel(at.graph, at.machine->topology)));
  GroupDescents descents(search.problem, search.state, kLike);
  const WalkPoint start = search.point();
  const WalkPoint found = descents.Improve(start, 10'000);
  const int64_t once = search.state.evaluations();
  EXPECT_LT(found.time, start.time);
  EXPECT_EQ(descents.Improve(start, 10'000).strategy, found.strategy);
  EXPECT_EQ(search.state.evaluations(), 2 * once - 1);  // without the start
  EXPECT_EQ(descents.Improve(found, 10'000).strategy, found.strategy);
  EXPECT_EQ(search.state.evaluations(), 2 * once - 1);
}

// The least that a strategy takes by any rule, with the buckets that are best by that of searches.
Nanos TimeInBestOrder(const SearchProblem& problem, const Strategy& strategy) {
  const Evaluation own =
      problem.evaluator.EvaluateBriefly(strategy, kNoCutoff, nullptr, problem.bucket_bytes);
  const Strategy joined = Ok(problem.evaluator.WithBucketsUpTo(strategy, own.bucket_bytes));
  return std::min(own.time, problem.evaluator.EvaluateBrieflyInBestOrder(joined).time);
}

class SearchGroupsTest : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Buckets, SearchGroupsTest, testing::Values(0, 1 << 20));

TEST_P(SearchGroupsTest, ComparesStepsInTheirBestOrders) {
  const Workplace at("rnnlm", 8, "p100-4x4", 4);
  SearchProblem problem{at.evaluator, at.space, {{"start", SecondLayerInOnePlace(at)}}};
  problem.bucket_bytes = Bytes(GetParam());
  problem.in_best_order = true;
  const SearchResult found = Ok(SearchGroups(problem, {.evaluations = 60, .threads = 1}));
  EXPECT_EQ(found.evaluation.time, TimeInBestOrder(problem, found.best));
  EXPECT_LT(found.evaluation.time, TimeInBestOrder(problem, problem.starts[0].strategy));
  EXPECT_EQ(ValidateStrategy(at.graph, found.best, 4), absl::OkStatus());
  const SearchResult by_threads = Ok(SearchGroups(problem, {.evaluations = 60, .threads = 3}));
  EXPECT_EQ(by_threads.best, found.best);
  EXPECT_EQ(by_threads.evaluations, found.evaluations);
}

// What is beyond the cutoff in one order, but not in the best one, is within it.
TEST(SearchGroupsTest, BestOrdersAreWithinACutoffThatOneOrderIsBeyond) {
  const Workplace at("rnnlm_tiny", 8, "p100-4x4", 8);
  SearchProblem problem = at.Problem();
  problem.in_best_order = true;
  const SearchOptions options;
  SearchState state(problem, options);
  std::mt19937_64 random(71);
  int others = 0;  // strategies that another rule is better for
  for (int round = 0; round < 60; ++round) {
    const Strategy strategy = at.space.RandomStrategy(random);
    const Nanos own = at.evaluator.EvaluateBriefly(strategy, kNoCutoff).time;
    const Nanos least = TimeInBestOrder(problem, strategy);
    const Evaluation within = state.Try(strategy, "random", least);
    EXPECT_EQ(within.is_within(), own <= TimesOf(least, 1.1));
    if (within.is_within()) {
      EXPECT_EQ(within.time, least);
    }
    EXPECT_FALSE(state.Try(strategy, "random", least - Nanos(1)).is_within());
    others += within.is_within() && least < own;
  }
  EXPECT_GT(others, 5);
}

}  // namespace
}  // namespace partita

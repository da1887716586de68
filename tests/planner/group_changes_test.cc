// What may change of a group of operators, by level.
#include "planner/search/group_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "planner/space/neighbour_splits.h"
#include "tests/planner/fixture.h"

namespace partita {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr Grouping kEach[] = {Grouping::kSingle}, kTogether[] = {Grouping::kOfLike};
constexpr Change kKinds[] = {Change::kNeighbours,  Change::kShifted,    Change::kShiftedChain,
                             Change::kTraded,      Change::kTradedPair, Change::kResized,
                             Change::kResizedPair, Change::kReaders,    Change::kWeights};
static_assert(std::size(kKinds) == kKindsOfChange);

// The changes of a model's groups under an expert's strategy.
struct Asked {
  Asked(const std::string& model, const std::string& machine, int devices,
        std::span<const Grouping> groupings, const std::string& expert = "data_parallel")
      : at(model, 64, machine, devices),
        problem(at.Problem()),
        state(problem, options),
        groups(at.space, groupings),
        changes(problem, groups, state),
        strategy(at.Expert(expert)),
        step(at.evaluator.Evaluate(strategy).time) {}

  std::vector<ChangeSet> Of(Change kind, size_t level, const std::vector<OpId>& group) {
    return changes.Of(kind, level, group, strategy, step);
  }

  const Workplace at;
  const SearchProblem problem;
  const SearchOptions options;
  SearchState state;
  const OperatorGroups groups;
  GroupChanges changes;
  Strategy strategy;
  const Nanos step;
};

TEST(GroupChangesTest, FitAndLeaveTheStrategy) {
  Asked asked("resnet18", "k80-16x4", 16, kTogether, "one_weird_trick");
  const Strategy before = asked.strategy;
  int proposals = 0;
  const auto check = [&](const ChangeSet& set, const std::vector<Decision>& proposal, Change kind) {
    EXPECT_FALSE(proposal.empty());
    for (const Decision& decision : proposal) {
      const auto* split = std::get_if<OperatorDecision>(&decision);
      EXPECT_EQ(split == nullptr, kind == Change::kWeights);
      if (split == nullptr) continue;
      EXPECT_TRUE(asked.at.space.Fits(split->op, split->config));
      EXPECT_NE(std::find(set.ops.begin(), set.ops.end(), split->op), set.ops.end());
    }
    ++proposals;
  };
  for (const OperatorGroup& group : asked.groups.Of(before)) {
    for (Change kind : kKinds) {
      for (const ChangeSet& set : asked.Of(kind, 0, group.ops)) {
        for (const std::vector<Decision>& proposal : set.proposals) check(set, proposal, kind);
      }
      EXPECT_EQ(asked.strategy, before);
    }
  }
  EXPECT_GE(proposals, 50);
}

// None is of two levels, and together those of all levels are all splits.
TEST(GroupChangesTest, AreEachOfOneLevel) {
  Asked asked("alexnet", "k80-16x4", 16, kEach);
  ASSERT_EQ(asked.changes.levels(), 4u);
  int64_t later = 0;
  for (Change kind : {Change::kNeighbours, Change::kTraded, Change::kTradedPair}) {
    for (const OperatorGroup& group : asked.groups.Of(asked.strategy)) {
      std::vector<std::vector<Decision>> all;
      for (size_t level = 0; level < asked.changes.levels(); ++level) {
        for (const ChangeSet& set : asked.Of(kind, level, group.ops)) {
          for (const std::vector<Decision>& proposal : set.proposals) {
            EXPECT_EQ(std::count(all.begin(), all.end(), proposal), 0);
            all.push_back(proposal);
            later += level > 0;
          }
        }
      }
      if (kind != Change::kTraded) continue;
      EXPECT_THAT(all, SizeIs(TradedSplits(asked.at.space, asked.strategy, group.ops[0]).size()));
    }
  }
  EXPECT_GE(later, 50);
  Asked few("alexnet", "k80-16x4", 8, kEach);
  EXPECT_EQ(few.changes.levels(), 1u);
}

// A trade comes first where it adds, to what the whole group costs, a fifth of the step's share of an
// operator, or less.
TEST(GroupChangesTest, ComeFirstWhereTheyCostLittleMoreOfTheStep) {
  Asked asked("vgg16", "k80-16x4", 32, kTogether);
  LocalCosts costs(asked.at.evaluator);
  const double share = asked.step.value() / static_cast<double>(asked.at.graph.anchors().size());
  const auto cost_of = [&](const OperatorGroup& group, const std::vector<Decision>* proposal) {
    Strategy strategy = asked.strategy;
    if (proposal != nullptr) Decide(asked.at.graph, strategy, *proposal);
    return costs.Of(strategy, std::span(group.ops).first(1));
  };
  int64_t first = 0, dearer = 0, later = 0;
  for (const OperatorGroup& group : asked.groups.Of(asked.strategy)) {
    const double before = static_cast<double>(cost_of(group, nullptr).value());
    for (size_t level = 0; level < asked.changes.levels(); ++level) {
      for (const ChangeSet& set : asked.Of(Change::kTraded, level, group.ops)) {
        for (const std::vector<Decision>& proposal : set.proposals) {
          const double added = static_cast<double>(cost_of(group, &proposal).value()) - before;
          const double whole = added * static_cast<double>(group.ops.size());
          if (level == 0) {
            EXPECT_LE(whole, 0.2 * share);
            ++first;
            dearer += added > 0;
          } else {
            EXPECT_GT(whole, 0.2 * share);
            ++later;
          }
        }
      }
    }
  }
  EXPECT_GE(first, 5);
  EXPECT_GE(dearer, 1);
  EXPECT_GE(later, 5);
}

TEST(GroupChangesTest, WithReadersCostLittleMoreThanBefore) {
  Asked asked("alexnet", "k80-16x4", 64, kEach);
  LocalCosts costs(asked.at.evaluator);
  const Strategy before = asked.strategy;
  const auto anchors = static_cast<int64_t>(asked.at.graph.anchors().size());
  const int64_t little = asked.step.value() / (5 * anchors);
  int proposals = 0;
  for (const OperatorGroup& group : asked.groups.Of(before)) {
    for (const ChangeSet& set : asked.Of(Change::kReaders, 0, group.ops)) {
      ASSERT_THAT(set.ops, SizeIs(2));
      EXPECT_EQ(asked.at.graph.op(set.ops[1]).anchor, set.ops[1]);
      EXPECT_LE(set.proposals.size(), 4u);
      int64_t last = 0;
      for (const std::vector<Decision>& proposal : set.proposals) {
        Strategy after = before;
        Decide(asked.at.graph, after, proposal);
        for (OpId op : set.ops) EXPECT_NE(after.configs[op.index()], before.configs[op.index()]);
        const auto cost = costs.Of(after, set.ops);
        ASSERT_TRUE(cost.has_value());
        EXPECT_LE(*cost, *costs.Of(before, set.ops) + little);
        EXPECT_GE(*cost, last);
        last = *cost;
        ++proposals;
      }
    }
    EXPECT_THAT(asked.Of(Change::kReaders, 1, group.ops), SizeIs(0));
  }
  EXPECT_GE(proposals, 10);
}

// Steps of a sequence are read by like operators, which change together.
TEST(GroupChangesTest, WithReadersOfLikeOperatorsAreOfAllOfThem) {
  Asked asked("rnnlm", "k80-16x4", 16, kTogether);
  const auto& like = asked.at.space.AllLike(asked.at.Op("lstm.0.5.x"));
  const std::vector<OpId> group(like.begin(), like.end());
  ASSERT_GE(group.size(), 30u);
  bool found = false;
  for (const ChangeSet& set : asked.Of(Change::kReaders, 0, group)) {
    found |= set.ops.size() >= 2 * group.size() - 2;
    for (const std::vector<Decision>& proposal : set.proposals) {
      EXPECT_THAT(proposal, SizeIs(set.ops.size()));
    }
  }
  EXPECT_TRUE(found);
}

TEST(GroupChangesTest, WithReadersThatMayChange) {
  const Workplace at("alexnet", 64, "k80-16x4", 16);
  const OpId conv = at.Op("features.0"), relu = at.Op("features.1");
  const SearchProblem narrow = at.Problem({SubjectOf(conv), SubjectOf(relu)});
  const SearchOptions options;
  const SearchState state(narrow, options);
  const OperatorGroups groups(narrow.space, kEach);
  GroupChanges changes(narrow, groups, state);
  Strategy strategy = at.Expert("data_parallel");
  const Nanos step = at.evaluator.Evaluate(strategy).time;
  const auto sets = changes.Of(Change::kReaders, 0, {conv}, strategy, step);
  ASSERT_THAT(sets, SizeIs(1));
  EXPECT_THAT(sets[0].ops, ElementsAre(conv, relu));
  EXPECT_THAT(changes.Of(Change::kReaders, 0, {relu}, strategy, step), SizeIs(0));
}

}  // namespace
}  // namespace partita

// What searches find: against all combinations, and against single decisions.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/lower_bound.h"
#include "planner/planner.h"
#include "planner/search/dynamic_programming.h"
#include "planner/search/integer_program.h"
#include "planner/space/like_operators.h"
#include "tests/planner/fixture.h"

namespace partita {
namespace {

// The last `count` operators.
std::vector<DecisionSubject> LastOperators(const Workplace& at, size_t count) {
  const auto operators = at.space.operators();
  std::vector<DecisionSubject> subjects;
  for (OpId op : operators.last(std::min(count, operators.size()))) {
    subjects.push_back(SubjectOf(op));
  }
  return subjects;
}

// The search may find less, from configurations that are no candidates. What it finds is where branch
// and bound begins: the less there is to beat, the sooner that ends.
void ExpectAutoFindsTheOptimum(const Workplace& at, const std::vector<DecisionSubject>& free,
                               double combinations, int64_t evaluations = 2000,
                               int64_t of_proof = 300'000) {
  SearchProblem problem = at.Problem(free);
  double product = 1;
  for (DecisionSubject subject : free) {
    product *= static_cast<double>(at.space.Candidates(subject).size());
  }
  EXPECT_GT(product, combinations);
  const SearchResult found = Ok(SearchAuto(problem, {.evaluations = evaluations}));
  EXPECT_FALSE(found.walked_all);
  problem.starts.push_back({"found", found.best});
  const SearchResult best = Ok(SearchExhaustive(problem, {.evaluations = of_proof}));
  EXPECT_TRUE(best.walked_all);
  EXPECT_LT(static_cast<double>(best.evaluations), product / 5);
  EXPECT_LE(found.evaluation.time, best.evaluation.time);
}

// How all operators are split and placed, whose weights lie where they are read.
TEST(AutoSearchTest, FindsTheExhaustiveOptimumOfLenet) {
  const Workplace two("lenet", 64, "p100-4x4", 2), four("lenet", 64, "p100-4x4", 4);
  ExpectAutoFindsTheOptimum(two, LastOperators(two, two.space.operators().size()), 4e8);
  ExpectAutoFindsTheOptimum(four, LastOperators(four, 3), 5e3);
}

// Within the search's default budget. On one core in two minutes.
TEST(AutoSearchTest, LongRunFindsTheExhaustiveOptimumOfLenetOnFourDevices) {
  const Workplace four("lenet", 64, "p100-4x4", 4);
  ExpectAutoFindsTheOptimum(four, LastOperators(four, four.space.operators().size()), 1e15,
                            DefaultEvaluations(four.graph, 4));
}

// Two steps of a recurrent net, with all its operators' splits and placements.
TEST(AutoSearchTest, LongRunFindsTheExhaustiveOptimumOfARecurrentNetOnTwoDevices) {
  const Workplace two(Ok(BuildTrainingGraph(Ok(UnrollRnnLmTiny(64, 2)), {})), "p100-4x4", 2);
  ExpectAutoFindsTheOptimum(two, LastOperators(two, two.space.operators().size()), 1e12,
                            DefaultEvaluations(two.graph, 2), 1'000'000);
}

// Walks from the best start end 5 % behind those from where a descent from another start ends.
TEST(AutoSearchTest, FindsNothingSlowerWhereMoreMayChange) {
  const Workplace at(Ok(BuildTrainingGraph(Ok(UnrollRnnLm(64, 2)), {})), "p100-4x4", 4);
  const SearchResult of_some =
      Ok(SearchAuto(at.Problem(LastOperators(at, 9)), {.evaluations = 8000}));
  const SearchResult of_all =
      Ok(SearchAuto(at.Problem(), {.evaluations = DefaultEvaluations(at.graph, 4)}));
  EXPECT_LE(of_all.evaluation.time, of_some.evaluation.time);
}

TEST(AutoSearchTest, FindsTheExhaustiveOptimumOfARecurrentNet) {
  const Workplace two("rnnlm_tiny", 64, "p100-4x4", 2), four("rnnlm_tiny", 64, "p100-4x4", 4);
  ExpectAutoFindsTheOptimum(two, LastOperators(two, 10), 1e7);
  ExpectAutoFindsTheOptimum(four, LastOperators(four, 5), 1e6);
}

// Where devices wait for each other, fewer are faster: a machine with more is no slower.
TEST(AutoSearchTest, LeavesDevicesOutThatOnlySlowItDown) {
  Nanos before = kNoCutoff;
  for (int devices : {4, 16}) {
    const Workplace at("nmt_short", 64, "p100-4x4", devices);
    SearchProblem problem = at.Problem();
    problem.on_fewer = ExpertsOnFewer(at.graph, at.machine->topology);
    const SearchResult found = Ok(SearchAuto(problem, {.evaluations = 300}));
    EXPECT_LE(found.evaluation.time, before) << devices;
    before = found.evaluation.time;
  }
}

TEST(AutoSearchTest, TriesEveryCombinationWhereTheBudgetDoes) {
  const Workplace at("lenet", 64, "p100-4x4", 2);
  const SearchProblem problem = at.Problem(LastOperators(at, 2));
  const SearchResult best = Ok(SearchExhaustive(problem, {.evaluations = 2000}));
  const SearchResult found = Ok(SearchAuto(problem, {.evaluations = 2000}));
  EXPECT_TRUE(found.walked_all);
  EXPECT_LE(found.evaluation.time, best.evaluation.time);
}

TEST(AutoSearchTest, SaysThatNoSingleDecisionIsFasterWhereNoneIs) {
  const Workplace at("lenet", 64, "p100-4x4", 2);
  const SearchResult found = Ok(SearchAuto(at.Problem(), {.evaluations = 4000}));
  ASSERT_TRUE(found.locally_optimal);
  for (DecisionSubject subject : at.space.subjects()) {
    for (const Decision& decision : at.space.Candidates(subject)) {
      Strategy changed = found.best;
      Decide(at.graph, changed, decision);
      EXPECT_GE(at.evaluator.Evaluate(changed).time, found.evaluation.time);
    }
  }
  EXPECT_FALSE(Ok(SearchAuto(at.Problem(), {.evaluations = 60})).locally_optimal);
}

TEST(AutoSearchTest, EndsAtTheLowerBound) {
  const Workplace at("lenet", 64, "p100-4x4", 2);
  SearchProblem problem = at.Problem();
  problem.bound.work = Ok(SearchStarts(problem, {})).evaluation.time;
  problem.bound.is_complete = true;
  for (const SearchRow& row : SearchAlgorithms()) {
    if (row.run == SearchIlp && IntegerProgramLacks() != nullptr) continue;
    const SearchResult found = Ok(row.run(problem, {.evaluations = 5000}));
    EXPECT_LE(found.evaluations, static_cast<int64_t>(problem.starts.size())) << row.name;
  }
}

TEST(DynamicProgrammingTest, IsFasterThanExpertsWhereExchangesRule) {
  const Workplace at("alexnet", 64, "k80-16x4", 8);
  const SearchProblem problem = at.Problem();
  const Nanos start = Ok(SearchStarts(problem, {})).evaluation.time;
  const SearchResult found = Ok(SearchDynamicProgramming(problem, {}));
  EXPECT_LT(found.evaluation.time, start);
  EXPECT_EQ(found.origin, "dynamic_programming");
}

TEST(DynamicProgrammingTest, ChangesOnlyTheOperatorsOfTheSpace) {
  const Workplace at("resnet_tiny", 16, "p100-4x4", 4);
  const std::vector<DecisionSubject> free = LastOperators(at, 5);
  const SearchProblem problem = at.Problem(free);
  const Strategy& base = problem.starts[0].strategy;
  WorkerThreads threads(3, "pricing");
  const auto found = DynamicProgrammingStarts(problem, base, [] { return false; }, threads);
  EXPECT_FALSE(found.empty());
  for (const NamedStrategy& start : found) {
    EXPECT_EQ(ValidateStrategy(at.graph, start.strategy, 4), absl::OkStatus());
    for (DecisionSubject subject : DecisionSubjects(at.graph)) {
      if (std::count(free.begin(), free.end(), subject) > 0) continue;
      EXPECT_EQ(DecisionIn(start.strategy, subject), DecisionIn(base, subject));
    }
  }
  EXPECT_TRUE(DynamicProgrammingStarts(problem, base, [] { return true; }, threads).empty());
}

TEST(LikeOperatorsTest, StepsAndBlocksAreAlike) {
  for (const char* model : {"rnnlm_tiny", "resnet18", "nmt_short"}) {
    const Graph graph = TrainingGraphOf(model, 8);
    const std::vector<int32_t> classes = LikeClasses(graph);
    ASSERT_EQ(classes.size(), graph.anchors().size());
    const std::set<int32_t> distinct(classes.begin(), classes.end());
    EXPECT_LT(distinct.size() * 5, classes.size() * 4) << model;
    for (size_t a = 0; a < classes.size(); ++a) {
      const auto first = static_cast<size_t>(std::find(classes.begin(), classes.end(), classes[a]) -
                                             classes.begin());
      EXPECT_EQ(graph.rule(graph.anchors()[a]), graph.rule(graph.anchors()[first])) << model;
    }
  }
}

TEST(OptimalityTest, PlansStateWhatIsKnown) {
  const Workplace at("lenet", 64, "p100-4x4", 2);
  PlanOutcome outcome = Ok(MakePlan(at.evaluator, {.search = "experts"}));
  EXPECT_EQ(OptimalityOf(outcome), Optimality::kUnknown);
  EXPECT_GT(outcome.bound.time(), Nanos(0));
  EXPECT_LE(outcome.bound.time(), outcome.step.evaluation.time);
  EXPECT_TRUE(outcome.bound.is_complete);
  outcome.plan.strategy.buckets.clear();
  outcome.search.locally_optimal = true;
  EXPECT_EQ(OptimalityOf(outcome), Optimality::kLocal);
  outcome.search.walked_all = true;
  EXPECT_EQ(OptimalityOf(outcome), Optimality::kOfCandidates);
  outcome.bound.work = outcome.step.evaluation.time;
  EXPECT_EQ(OptimalityOf(outcome), Optimality::kProven);
  outcome.bound.is_complete = false;
  EXPECT_EQ(OptimalityOf(outcome), Optimality::kOfCandidates);
}

}  // namespace
}  // namespace partita

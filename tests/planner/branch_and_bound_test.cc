// Branch and bound against plain enumeration, and its bounds against what they bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "planner/bound/partial_bound.h"
#include "planner/search/search_algorithm.h"
#include "planner/space/distinct_placements.h"
#include "tests/planner/fixture.h"
#include "tests/planner/some_subjects.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_graph.h"

namespace partita {
namespace {

using CandidateLists = std::vector<std::vector<Decision>>;

struct Case {
  explicit Case(std::mt19937_64& random)
      : graph(AnyGraph(random)),
        machine(AnyMachine(random)),
        costs(random() % 2 == 0 ? MakeSyntheticCostModel(machine) : MakeDefaultCostModel(machine)),
        evaluator(graph, machine->topology, *costs, OptionsOf(random)),
        space(graph, machine->topology.size()) {}

  static Graph AnyGraph(std::mt19937_64& random) {
    const char* models[] = {"mlp_tiny", "rnnlm_tiny", "lenet", "resnet_tiny"};
    const size_t which = random() % 12;
    if (which >= std::size(models)) return RandomTrainingGraph(random);
    return TrainingGraphOf(models[which], static_cast<int64_t>(2 + random() % 60));
  }
  static std::shared_ptr<const Machine> AnyMachine(std::mt19937_64& random) {
    const char* names[] = {"p100-4x4", "k80-16x4", "ethernet-4x1g", "ethernet-4x100m"};
    const int devices = static_cast<int>(1 + random() % 4);
    return std::make_shared<const Machine>(Ok(FindMachine(names[random() % 4], devices)));
  }
  static Evaluator::Options OptionsOf(std::mt19937_64& random) {
    Evaluator::Options options;
    options.choices.fuse = random() % 4 != 0;
    return options;
  }

  const Graph graph;
  const std::shared_ptr<const Machine> machine;
  const std::unique_ptr<CostModel> costs;
  const Evaluator evaluator;
  const SearchSpace space;
};

// A few subjects in a row, mostly.
std::vector<DecisionSubject> NeighbouringSubjects(const SearchSpace& space, size_t most,
                                                  std::mt19937_64& random) {
  const size_t first = random() % space.subjects().size();
  return SubjectsWithin(space, most,
                        [&](size_t draw) { return random() % 3 == 0 ? random() : first + draw; });
}

CandidateLists CandidatesOf(const SearchSpace& space) {
  CandidateLists candidates;
  for (DecisionSubject subject : space.subjects()) candidates.push_back(space.Candidates(subject));
  return candidates;
}

// The least time over all combinations; kNoCutoff where none fits.
Nanos LeastByTrying(const Evaluator& evaluator, const CandidateLists& candidates, size_t k,
                    Strategy& strategy, int64_t& evaluations) {
  if (k == candidates.size()) {
    ++evaluations;
    const Evaluation evaluation = evaluator.EvaluateBriefly(strategy, kNoCutoff);
    return evaluation.feasible() ? evaluation.time : kNoCutoff;
  }
  Nanos least = kNoCutoff;
  for (const Decision& decision : candidates[k]) {
    Decide(evaluator.graph(), strategy, decision);
    least = std::min(least, LeastByTrying(evaluator, candidates, k + 1, strategy, evaluations));
  }
  return least;
}

TEST(BranchAndBoundTest, FindsWhatEnumerationFindsWithFewerEvaluations) {
  int64_t tried = 0, enumerated = 0;
  int cases = 0, fewer = 0;
  for (uint64_t seed = 0; seed < CasesOf(250); ++seed) {
    std::mt19937_64 random(seed);
    const Case at(random);
    const SearchSpace space(at.graph, at.space.devices(),
                            NeighbouringSubjects(at.space, 150, random));
    if (space.subjects().empty()) continue;
    const Strategy start =
        random() % 2 == 0 ? SingleDevice(at.graph, DeviceId(0)) : at.space.RandomStrategy(random);
    const SearchProblem problem{at.evaluator, space, {{"any", start}}};
    const auto found = SearchExhaustive(problem, {.evaluations = 1000});
    if (!found.ok()) continue;  // out of memory
    EXPECT_TRUE(found->walked_all) << "seed " << seed;
    Strategy strategy = start;
    int64_t evaluations = 0;
    const Nanos least = LeastByTrying(at.evaluator, CandidatesOf(space), 0, strategy, evaluations);
    const Nanos of_start = at.evaluator.EvaluateBriefly(start, kNoCutoff).time;
    ASSERT_EQ(found->evaluation.time, std::min(least, of_start)) << "seed " << seed;
    ASSERT_EQ(at.evaluator.Evaluate(found->best).time, found->evaluation.time);
    ++cases;
    fewer += found->evaluations < evaluations + 1;
    tried += found->evaluations;
    enumerated += evaluations + 1;
  }
  RecordProperty("evaluations", std::to_string(tried));
  RecordProperty("enumerated", std::to_string(enumerated));
  EXPECT_GE(cases, CasesOf(200));
  EXPECT_GE(fewer, CasesOf(100));
  EXPECT_LT(tried * 3, enumerated * 2);
}

// Decides subjects in any order on the way to random whole strategies.
TEST(PartialBoundTest, NeverExceedsAStepThatAgreesWithTheDecisions) {
  int tight = 0, bounds = 0;
  for (uint64_t seed = 0; seed < CasesOf(40); ++seed) {
    std::mt19937_64 random(1000 + seed);
    const Case at(random);
    std::vector<DecisionSubject> subjects(at.space.subjects().begin(), at.space.subjects().end());
    std::shuffle(subjects.begin(), subjects.end(), random);
    subjects.resize(std::min<size_t>(subjects.size(), 12));
    const SearchSpace space(at.graph, at.space.devices(), subjects);
    const CandidateLists candidates = CandidatesOf(space);
    Strategy strategy = at.space.RandomStrategy(random);
    PartialBound bound(at.evaluator, strategy, candidates, nullptr);
    for (int round = 0; round < 4; ++round) {
      std::vector<size_t> order(candidates.size());
      for (size_t k = 0; k < order.size(); ++k) order[k] = k;
      std::shuffle(order.begin(), order.end(), random);
      std::vector<int64_t> found = {bound.Bound()};
      for (size_t subject : order) {
        const size_t candidate = random() % candidates[subject].size();
        bound.Decide(subject, candidate);
        Decide(at.graph, strategy, candidates[subject][candidate]);
        found.push_back(bound.Bound());
        // One that goes no further than it has to is enough, or the same.
        const int64_t enough = found.back() * static_cast<int64_t>(random() % 5) / 3;
        const int64_t early = bound.Bound(enough);
        ASSERT_TRUE(early == found.back() || early >= enough) << "seed " << seed;
        ASSERT_LE(early, found.back());
      }
      const Nanos time = at.evaluator.Evaluate(strategy).time;
      for (int64_t one : found) ASSERT_LE(Nanos(one), time) << "seed " << seed;
      ++bounds;
      tight += Nanos(found.back()) * 4 > time * 3;
      for (size_t subject : order) bound.Undecide(subject);
      ASSERT_EQ(bound.Bound(), found[0]) << "seed " << seed;
    }
  }
  EXPECT_GE(tight * 2, bounds) << "of " << bounds;
}

TEST(BranchAndBoundTest, EndsWithTheBestSoFarWhenTheBudgetEnds) {
  const Workplace at("lenet", 64, "p100-4x4", 2);
  const SearchResult found = Ok(SearchExhaustive(at.Problem(), {.evaluations = 300}));
  EXPECT_FALSE(found.walked_all);
  EXPECT_LE(found.evaluations, 300);
  EXPECT_LE(found.evaluation.time, Ok(SearchStarts(at.Problem(), {})).evaluation.time);
}

// Of each weight in turn, all candidates against those that stand for them.
TEST(DistinctPlacementsTest, StandForOthersOfEqualSteps) {
  std::mt19937_64 random(11);
  int equal = 0, different = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const Case at(random);
    Strategy strategy = at.space.RandomStrategy(random);
    for (int32_t weight : at.space.weights()) {
      const std::vector<Decision> candidates =
          at.space.Candidates(SubjectOf(WeightDecision{weight, {}}));
      const std::vector<size_t> distinct =
          DistinctPlacements(at.graph, strategy, static_cast<size_t>(weight), candidates);
      std::vector<Evaluation> of_distinct;
      const auto evaluated = [&](const Decision& decision) {
        Decide(at.graph, strategy, decision);
        return at.evaluator.EvaluateBriefly(strategy, kNoCutoff);
      };
      for (size_t c : distinct) of_distinct.push_back(evaluated(candidates[c]));
      for (size_t c = 0; c < candidates.size(); ++c) {
        const Evaluation one = evaluated(candidates[c]);
        EXPECT_TRUE(std::any_of(of_distinct.begin(), of_distinct.end(),
                                [&](const auto& other) {
                                  return one.time == other.time && one.verdict == other.verdict;
                                }))
            << at.graph.name() << ", weight " << weight << ", candidate " << c;
      }
      different += static_cast<int>(distinct.size());
      equal += static_cast<int>(candidates.size() - distinct.size());
    }
  }
  EXPECT_GE(equal, 100);
  EXPECT_GE(different, 500);
}

}  // namespace
}  // namespace partita

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "graph/parallel/parts.h"
#include "graph/verify/plan_verifier.h"
#include "tests/planner/fixture.h"

namespace partita {
namespace {

using testing::HasSubstr;

// The time of the best expert that fits.
Nanos BestStart(const Workplace& at) {
  Nanos best(std::numeric_limits<int64_t>::max());
  for (const NamedStrategy& start : ExpertStarts(at.graph, at.machine->topology)) {
    const Evaluation evaluation = at.evaluator.Evaluate(start.strategy);
    if (evaluation.feasible()) best = std::min(best, evaluation.time);
  }
  return best;
}

std::vector<OpId> Anchors(const Graph& graph, bool (*wanted)(const OpAttrs&)) {
  std::vector<OpId> found;
  for (OpId id : graph.anchors()) {
    if (wanted(graph.op(id).attrs)) found.push_back(id);
  }
  return found;
}
bool IsDense(const OpAttrs& attrs) { return std::holds_alternative<MatMul>(attrs); }

// Every row of the table keeps these.
class SearchConformanceTest : public testing::TestWithParam<SearchRow> {
 protected:
  // Few operators free, so that exhaustive search can take part.
  Workplace at_{"lenet", 16, "ethernet-4x1g", 2};
  const std::vector<OpId> free_ = Anchors(at_.graph, IsDense);

  absl::StatusOr<SearchResult> Run(const SearchOptions& options) const {
    return GetParam().run(at_.Problem(free_), options);
  }
};

TEST_P(SearchConformanceTest, ResultVerifiesAndIsNeverWorseThanTheBestStart) {
  const SearchResult result = Ok(Run({.evaluations = 400}));
  EXPECT_EQ(VerifyPlan(at_.graph, at_.PlanOf(result.best)), absl::OkStatus());
  EXPECT_LE(result.evaluation.time, BestStart(at_));
  const Evaluation again = at_.evaluator.Evaluate(result.best);
  EXPECT_EQ(again.time, result.evaluation.time);
  EXPECT_EQ(again.peak, result.evaluation.peak);
  EXPECT_FALSE(result.origin.empty());
  EXPECT_FALSE(result.interrupted);
}

TEST_P(SearchConformanceTest, EqualSeedsGiveEqualPlans) {
  const SearchResult a = Ok(Run({.evaluations = 300, .seed = 7}));
  const SearchResult b = Ok(Run({.evaluations = 300, .seed = 7}));
  EXPECT_EQ(a.best, b.best);
  EXPECT_EQ(a.evaluation.time, b.evaluation.time);
  EXPECT_EQ(a.evaluations, b.evaluations);
  EXPECT_EQ(a.origin, b.origin);
}

TEST_P(SearchConformanceTest, BudgetIsKeptBeyondTheStarts) {
  for (int64_t evaluations : {1, 2, 10, 250}) {
    const auto result = Run({.evaluations = evaluations});
    if (!result.ok()) {  // only an exhaustive search may say that the budget does not do
      EXPECT_EQ(std::string(GetParam().name), "exhaustive");
      EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(result.status().message()), HasSubstr("--evaluations"));
      continue;
    }
    const auto starts = static_cast<int64_t>(at_.Problem().starts.size());
    EXPECT_LE(result->evaluations, std::max(evaluations, starts));
    EXPECT_LE(result->evaluation.time, BestStart(at_));
  }
}

TEST_P(SearchConformanceTest, StopKeepsTheBestSoFar) {
  const std::atomic<bool> stop = true;
  const SearchResult result = Ok(Run({.evaluations = 1000, .stop = &stop}));
  EXPECT_LE(result.evaluations, static_cast<int64_t>(at_.Problem().starts.size()));
  EXPECT_LE(result.evaluation.time, BestStart(at_));
}

TEST_P(SearchConformanceTest, TimeLimitKeepsTheBestSoFar) {
  const SearchResult result = Ok(Run({.evaluations = 1000, .time_limit_seconds = 1e-9}));
  EXPECT_LE(result.evaluations, static_cast<int64_t>(at_.Problem().starts.size()));
  EXPECT_LE(result.evaluation.time, BestStart(at_));
}

TEST_P(SearchConformanceTest, OnlyFreeOperatorsChange) {
  const SearchResult result = Ok(Run({.evaluations = 400}));
  const auto starts = ExpertStarts(at_.graph, at_.machine->topology);
  EXPECT_TRUE(std::any_of(starts.begin(), starts.end(), [&](const NamedStrategy& start) {
    return std::all_of(at_.graph.anchors().begin(), at_.graph.anchors().end(), [&](OpId id) {
      return std::count(free_.begin(), free_.end(), id) > 0 ||
             start.strategy.configs[id.index()] == result.best.configs[id.index()];
    });
  }));
}

// A machine's devices with next to no memory.
DeviceTopology WithLittleMemory(const DeviceTopology& topology) {
  std::vector<Device> devices(topology.devices().begin(), topology.devices().end());
  for (Device& device : devices) device.memory = Bytes(1000);
  return Ok(DeviceTopology::Create(devices, {topology.links().begin(), topology.links().end()}));
}

TEST_P(SearchConformanceTest, StopBeforeAnythingIsFoundIsCancelled) {
  const DeviceTopology topology = WithLittleMemory(at_.machine->topology);
  const Evaluator evaluator(at_.graph, topology, *at_.costs);
  const SearchProblem problem{evaluator, at_.space, ExpertStarts(at_.graph, topology), free_};
  const std::atomic<bool> stop = true;
  const auto result = GetParam().run(problem, {.evaluations = 400, .stop = &stop});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << result.status();
}

TEST_P(SearchConformanceTest, TooLittleMemoryIsAnErrorThatSaysByHowMuch) {
  const DeviceTopology topology = WithLittleMemory(at_.machine->topology);
  const Evaluator evaluator(at_.graph, topology, *at_.costs);
  const SearchProblem problem{evaluator, at_.space, ExpertStarts(at_.graph, topology), free_};
  const auto result = GetParam().run(problem, {.evaluations = 400});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("too few"));
}

TEST_P(SearchConformanceTest, NoStartIsAnError) {
  SearchProblem problem = at_.Problem(free_);
  problem.starts.clear();
  EXPECT_EQ(GetParam().run(problem, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Table, SearchConformanceTest,
                         testing::ValuesIn(SearchAlgorithms().begin(), SearchAlgorithms().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SearchTableTest, UnknownNamesAreAnsweredWithTheKnownOnes) {
  const auto search = SearchNamed("oracle");
  EXPECT_EQ(search.status().code(), absl::StatusCode::kNotFound);
  for (const SearchRow& row : SearchAlgorithms()) {
    EXPECT_THAT(std::string(search.status().message()), HasSubstr(row.name));
    EXPECT_EQ(*SearchNamed(row.name), row.run);
  }
}

// MCMC draws from more configurations than the exhaustive search walks, so it may find less time.
TEST(SearchQualityTest, McmcFindsTheExhaustiveOptimum) {
  struct Case {
    const char* model;
    int64_t batch;
    const char* machine;
  };
  for (const Case& c : {Case{"lenet", 64, "ethernet-4x1g"}, Case{"lenet", 1024, "p100-4x4"},
                        Case{"mlp_tiny", 64, "p100-4x4"}, Case{"mlp_tiny", 4096, "p100-4x4"}}) {
    const Workplace at(c.model, c.batch, c.machine, 2);
    SCOPED_TRACE(std::string(c.model) + " on " + c.machine);
    const std::vector<OpId> free = Anchors(at.graph, IsDense);
    const SearchResult best = Ok(SearchExhaustive(at.Problem(free), {.evaluations = 2000}));
    const SearchResult found = Ok(SearchMcmc(at.Problem(free), {.evaluations = 1000}));
    EXPECT_LE(found.evaluation.time, best.evaluation.time);
  }
}

TEST(SearchQualityTest, NoSingleChangeImprovesTheGreedyResult) {
  const Workplace at("lenet", 64, "p100-4x4", 2);
  const SearchResult result = Ok(SearchGreedy(at.Problem(), {.evaluations = 5000}));
  ASSERT_LT(result.evaluations, 5000);
  for (OpId op : at.graph.anchors()) {
    for (const ParallelConfig& config : at.space.Candidates(op)) {
      Strategy changed = result.best;
      changed.configs[op.index()] = config;
      EXPECT_GE(at.evaluator.Evaluate(changed).time, result.evaluation.time)
          << at.graph.op(op).name << " " << ToString(at.graph.rule(op), config);
    }
  }
}

TEST(SearchQualityTest, ChainsLeaveStartsThatDoNotFitInMemory) {
  // A device holds less than the whole model takes, and the only start is on one device.
  const Workplace at("mlp", 64, "ethernet-4x1g", 4);
  const Strategy one = SingleDevice(at.graph, DeviceId(0));
  const Bytes peak = at.evaluator.Evaluate(one).peak[0];
  std::vector<Device> devices(at.machine->topology.devices().begin(),
                              at.machine->topology.devices().end());
  for (Device& device : devices) device.memory = Bytes(peak.value() / 10 * 7);
  const auto& links = at.machine->topology.links();
  const auto topology = Ok(DeviceTopology::Create(devices, {links.begin(), links.end()}));
  const Evaluator evaluator(at.graph, topology, *at.costs);
  const SearchProblem problem{evaluator, at.space, {{"one", one}}, {}};
  const auto result = SearchMcmc(problem, {.evaluations = 1500, .random_starts = 0});
  ASSERT_TRUE(result.ok()) << result.status();
  for (Bytes p : result->evaluation.peak) EXPECT_LE(p, devices[0].memory);
}

TEST(SearchSpaceTest, EverythingDrawnFits) {
  for (const char* model : {"lenet", "resnet_tiny", "alexnet_caffe2012"}) {
    const Graph graph = TrainingGraphOf(model, 6);
    for (int devices : {1, 3, 4, 64}) {
      const SearchSpace space(graph, devices);
      std::mt19937_64 random(3);
      for (int k = 0; k < 5; ++k) {
        const Strategy strategy = space.RandomStrategy(random);
        EXPECT_EQ(ValidateStrategy(graph, strategy, devices), absl::OkStatus());
      }
    }
  }
}

TEST(SearchSpaceTest, TransplantedConfigurationsReadWhatLiesThere) {
  // What flows between two operators of equal split stays where it is.
  const Workplace at("alexnet", 16, "ethernet-4x1g", 4);
  const OpId dense = at.Op("classifier.1"), relu = at.Op("classifier.2");
  const Strategy trick = at.Expert("one_weird_trick");
  const auto copied = WithSameResultSplit(at.space, dense, trick.configs[dense.index()], relu);
  ASSERT_TRUE(copied.has_value());
  EXPECT_EQ(*copied, trick.configs[relu.index()]);
  const OpId conv = at.Op("features.0"), pool = at.Op("features.2");
  EXPECT_EQ(WithSameResultSplit(at.space, conv, trick.configs[conv.index()], pool),
            trick.configs[pool.index()]);
}

}  // namespace
}  // namespace partita

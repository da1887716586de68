#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>

#include "graph/collective/algorithms.h"
#include "graph/parallel/parts.h"
#include "graph/parallel/weight_layouts.h"
#include "graph/partition/partition.h"
#include "graph/verify/plan_verifier.h"
#include "planner/expert/expert_strategies.h"
#include "planner/planner.h"
#include "planner/search/integer_program.h"
#include "planner/space/moves.h"
#include "planner/space/stage_moves.h"
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

// The linear layers.
std::vector<DecisionSubject> Dense(const Graph& graph) {
  std::vector<DecisionSubject> found;
  for (OpId id : graph.anchors()) {
    if (std::holds_alternative<MatMul>(graph.op(id).attrs)) found.push_back(SubjectOf(id));
  }
  return found;
}

// The layouts of the weights of rank 2.
std::vector<DecisionSubject> Matrices(const Graph& graph) {
  std::vector<DecisionSubject> found;
  for (size_t w = 0; w < graph.weights().size(); ++w) {
    if (graph.tensor(graph.weights()[w].tensor).type.shape.size() == 2) {
      found.push_back(SubjectOfWeight(w));
    }
  }
  return found;
}

// Every row of the table keeps these.
class SearchConformanceTest : public testing::TestWithParam<SearchRow> {
 protected:
  // Few subjects free, so that exhaustive search can take part.
  Workplace at_{"lenet", 16, "ethernet-4x1g", 2};
  const std::vector<DecisionSubject> free_ = FreeOnes(at_.graph);

  // The last two linear layers and the weight of the last.
  static std::vector<DecisionSubject> FreeOnes(const Graph& graph) {
    std::vector<DecisionSubject> free = Dense(graph);
    free.erase(free.begin(), free.end() - 2);
    free.push_back(Matrices(graph).back());
    return free;
  }

  void SetUp() override {
    if (GetParam().run == SearchIlp && IntegerProgramLacks() != nullptr) {
      GTEST_SKIP() << "without " << IntegerProgramLacks();
    }
  }

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
  EXPECT_EQ(again.verdict, result.evaluation.verdict);
  EXPECT_THAT(result.evaluation.peak, testing::Pointwise(testing::Ge(), again.peak));
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

TEST_P(SearchConformanceTest, ThreadsDecideNothing) {
  const SearchResult alone = Ok(Run({.evaluations = 300, .seed = 5, .threads = 1}));
  for (int threads : {2, 4}) {
    const SearchResult result = Ok(Run({.evaluations = 300, .seed = 5, .threads = threads}));
    EXPECT_EQ(result.best, alone.best);
    EXPECT_EQ(result.evaluation.time, alone.evaluation.time);
    EXPECT_EQ(result.evaluations, alone.evaluations);
    EXPECT_EQ(result.accepted, alone.accepted);
    EXPECT_EQ(result.origin, alone.origin);
    EXPECT_EQ(result.by_origin.size(), alone.by_origin.size());
  }
}

// Walks go by themselves for a while, and are told of in turns.
TEST(AnnealingTest, WalksOfSeveralThreadsFindAndTellTheSame) {
  const Workplace at("alexnet", 64, "k80-16x4", 16);
  for (int64_t evaluations : {41, 300}) {
    std::vector<SearchResult> results;
    std::vector<std::vector<std::pair<int64_t, Nanos>>> told;
    for (int threads : {1, 2, 5}) {
      auto& steps = told.emplace_back();
      const auto note = [&](const SearchProgress& step) {
        steps.emplace_back(step.evaluations, step.current);
      };
      results.push_back(Ok(SearchAnnealing(
          at.Problem(),
          {.evaluations = evaluations, .seed = 3, .threads = threads, .progress = note})));
    }
    EXPECT_GT(told[0].size(), 2u);
    for (size_t k = 1; k < results.size(); ++k) {
      EXPECT_EQ(results[k].best, results[0].best);
      EXPECT_EQ(results[k].evaluations, results[0].evaluations);
      EXPECT_EQ(results[k].accepted, results[0].accepted);
      EXPECT_EQ(told[k], told[0]);
    }
    EXPECT_EQ(at.evaluator.EvaluateBriefly(results[0].best, kNoCutoff).time,
              results[0].evaluation.time);
    EXPECT_LE(results[0].evaluations, evaluations);
  }
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

TEST_P(SearchConformanceTest, OnlyFreeSubjectsChange) {
  const SearchResult result = Ok(Run({.evaluations = 400}));
  const auto starts = ExpertStarts(at_.graph, at_.machine->topology);
  EXPECT_TRUE(std::any_of(starts.begin(), starts.end(), [&](const NamedStrategy& start) {
    const std::vector<DecisionSubject> subjects = DecisionSubjects(at_.graph);
    return std::all_of(subjects.begin(), subjects.end(), [&](DecisionSubject subject) {
      return std::count(free_.begin(), free_.end(), subject) > 0 ||
             DecisionIn(start.strategy, subject) == DecisionIn(result.best, subject);
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
  const SearchProblem problem{evaluator, SearchSpace(at_.graph, topology.size(), free_),
                              ExpertStarts(at_.graph, topology)};
  const std::atomic<bool> stop = true;
  const auto result = GetParam().run(problem, {.evaluations = 400, .stop = &stop});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << result.status();
}

TEST_P(SearchConformanceTest, TooLittleMemoryIsAnErrorThatSaysByHowMuch) {
  const DeviceTopology topology = WithLittleMemory(at_.machine->topology);
  const Evaluator evaluator(at_.graph, topology, *at_.costs);
  const SearchProblem problem{evaluator, SearchSpace(at_.graph, topology.size(), free_),
                              ExpertStarts(at_.graph, topology)};
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
    const std::vector<DecisionSubject> free = Dense(at.graph);
    const SearchResult best = Ok(SearchExhaustive(at.Problem(free), {.evaluations = 2000}));
    const SearchResult found = Ok(SearchMcmc(at.Problem(free), {.evaluations = 1000}));
    EXPECT_LE(found.evaluation.time, best.evaluation.time);
  }
}

// Over a slow network four devices are slower than two of them.
TEST(SearchQualityTest, StartsAreTriedOnFewerDevices) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("rnnlm_tiny", 8)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine("ethernet-4", 4)));
  const auto costs = MakeSyntheticCostModel(machine);
  const Evaluator evaluator(graph, machine->topology, *costs);
  const auto on_fewer = ExpertsOnFewer(graph, machine->topology);
  const Strategy all = Ok(Ok(ExpertNamed("data_parallel"))(graph, machine->topology));
  const SearchProblem problem{
      evaluator, SearchSpace(graph, 4), {{"data_parallel", all}}, {}, on_fewer};
  const SearchResult found = Ok(SearchMcmc(problem, {.evaluations = 3, .random_starts = 0}));
  const auto on_two = on_fewer("data_parallel", 2);
  ASSERT_TRUE(on_two.has_value());
  const Evaluation two = evaluator.EvaluateBriefly(*on_two, kNoCutoff);
  ASSERT_TRUE(two.feasible()) << two.reason;
  ASSERT_LT(two.time, evaluator.EvaluateBriefly(all, kNoCutoff).time);
  EXPECT_LE(found.evaluation.time, two.time);
  EXPECT_EQ(found.origin, "data_parallel on 2 devices");
  EXPECT_FALSE(on_fewer("no_such_expert", 2).has_value());
  EXPECT_FALSE(on_fewer("data_parallel", 5).has_value());
}

// What is slow on few devices is tried on all of them, too, if only at the end.
TEST(SearchQualityTest, AStartThatIsBehindOnFewerDevicesIsStillFound) {
  const Workplace at("lenet", 64, "p100-4x4", 16);
  const Strategy one = SingleDevice(at.graph, DeviceId(0));
  const Strategy good = Ok(SearchAuto(at.Problem(), {.evaluations = 200})).best;
  const Nanos time = at.evaluator.EvaluateBriefly(good, kNoCutoff).time;
  const auto experts = ExpertsOnFewer(at.graph, at.machine->topology);
  const auto on_fewer = [&](const std::string& name, int devices) {
    return name == "late" ? std::optional<Strategy>(one) : experts("data_parallel", devices);
  };
  const SearchProblem problem{
      at.evaluator, at.space, {{"early", one}, {"late", good}}, {}, on_fewer};
  ASSERT_LT(time, at.evaluator.EvaluateBriefly(*experts("data_parallel", 4), kNoCutoff).time);
  for (int64_t evaluations : {1, 60}) {
    const SearchResult found = Ok(SearchAuto(problem, {.evaluations = evaluations}));
    EXPECT_LE(found.evaluation.time, time);
  }
  const SearchResult found = Ok(SearchAuto(problem, {.evaluations = 1}));
  EXPECT_EQ(found.origin, "late");
  EXPECT_EQ(found.by_origin.back().found.name, "late");
}

TEST(SearchQualityTest, NoSingleChangeImprovesTheGreedyResult) {
  const Workplace at("lenet", 64, "p100-4x4", 2);
  const SearchResult result = Ok(SearchGreedy(at.Problem(), {.evaluations = 5000}));
  ASSERT_LT(result.evaluations, 5000);
  for (DecisionSubject subject : at.space.subjects()) {
    for (const Decision& decision : at.space.Candidates(subject)) {
      Strategy changed = result.best;
      Decide(at.graph, changed, decision);
      EXPECT_GE(at.evaluator.Evaluate(changed).time, result.evaluation.time)
          << DecisionText(at.graph, decision);
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
  const SearchProblem problem{evaluator, at.space, {{"one", one}}};
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

// A configuration of few parts, by degrees that the loops allow.
ParallelConfig RandomDegrees(const ShardingRule& rule, std::mt19937_64& random) {
  constexpr int64_t kMostParts = 64;
  ParallelConfig config = Unsplit(rule, DeviceId(0));
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    const LoopDim& loop = rule.loops[l];
    const int64_t wanted[] = {1, 2, 3, loop.extent};
    const int64_t degree = std::min(wanted[random() % 4], loop.extent);
    if (!loop.splittable || degree * PartCount(config) > kMostParts) continue;
    config.degrees[l] = static_cast<int32_t>(degree);
  }
  config.devices = DeviceRange(0, static_cast<int32_t>(PartCount(config)));
  return config;
}

TEST(SearchSpaceTest, PartsAreKnownToExistWhereTheyCanBeMade) {
  std::mt19937_64 random(5);
  int made = 0, refused = 0;
  for (const char* model : {"lenet", "resnet_tiny", "gpt_tiny", "nmt_short"}) {
    const Graph graph = TrainingGraphOf(model, 6);
    for (const Operator& op : graph.ops()) {
      for (int k = 0; op.anchor != kNoOp && k < 60; ++k) {
        const ParallelConfig config = RandomDegrees(graph.rule(op.anchor), random);
        const bool can = PartsOf(graph, op, config).ok();
        EXPECT_EQ(HasParts(graph, op, config), can) << model << ": " << op.name;
        ++(can ? made : refused);
      }
    }
  }
  EXPECT_GT(made, 1000);
  EXPECT_GT(refused, 100);
}

TEST(SearchSpaceTest, PinsHoldInThePlanAndTheRestIsSearched) {
  const Workplace at("lenet", 64, "p100-4x4", 2);
  const OpId conv = at.Op("conv1");
  const std::vector<Decision> pins = {
      OperatorDecision{conv, Unsplit(at.graph.rule(conv), DeviceId(1))},
      WeightDecision{0,
                     {.update = EvenShards(at.graph.tensor(at.graph.weights()[0].tensor).type.shape,
                                           std::vector{DeviceId(1)})}}};
  const PlanOutcome outcome =
      Ok(MakePlan(at.evaluator, {.options = {.evaluations = 300}, .pins = pins}));
  for (const Decision& pin : pins) {
    EXPECT_EQ(DecisionIn(outcome.plan.strategy, SubjectOf(pin)), pin);
  }
  EXPECT_GT(outcome.search.accepted, 0);
}

// An all-reduce of data parallelism by another algorithm than its price would choose.
TEST(SearchSpaceTest, TheAlgorithmOfACollectiveCanBePinned) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const Strategy start = Ok(Ok(ExpertNamed("data_parallel"))(at.graph, at.evaluator.topology()));
  const TaskGraph tasks = Ok(Partition(at.graph, start, at.evaluator.partition_options()));
  const CollectiveTask* reduced = nullptr;
  CollectiveStepId id;
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<CollectiveTask>(&task.body);
    if (body == nullptr || body->collective.kind != CollectiveKind::kAllReduce) continue;
    reduced = body;
    id = {TensorId(task.key.subject), task.key.step};
  }
  ASSERT_NE(reduced, nullptr);
  for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
    if (!row.kinds.contains(CollectiveKind::kAllReduce) || !row.applicable(4)) continue;
    const Decision pin = AlgorithmDecision{{id, std::string(row.name)}};
    const PlanOutcome outcome =
        Ok(MakePlan(at.evaluator, {.options = {.evaluations = 60}, .pins = {pin}}));
    EXPECT_EQ(DecisionIn(outcome.plan.strategy, SubjectOf(pin)), pin) << row.name;
    EXPECT_TRUE(Ok(EvaluatePlan(at.evaluator, outcome.plan)).search.evaluation.feasible());
  }
}

TEST(SearchSpaceTest, CandidatesAndDrawnDecisionsAreValid) {
  std::mt19937_64 random(5);
  for (int devices : {1, 3, 4}) {
    const Graph graph = TrainingGraphOf("lenet", 6);
    const SearchSpace space(graph, devices);
    EXPECT_EQ(space.subjects().size(), graph.anchors().size() + space.weights().size());
    for (DecisionSubject subject : space.subjects()) {
      std::vector<Decision> decisions = space.Candidates(subject);
      const auto count = static_cast<int64_t>(decisions.size());
      EXPECT_EQ(space.CountCandidates(subject, count), count);
      EXPECT_GE(space.CountCandidates(subject, count - 1), count);
      for (int k = 0; k < 20; ++k) decisions.push_back(space.Random(subject, random));
      for (const Decision& decision : decisions) {
        EXPECT_EQ(SubjectOf(decision), subject);
        Strategy strategy = SingleDevice(graph, DeviceId(0));
        Decide(graph, strategy, decision);
        EXPECT_EQ(DecisionIn(strategy, subject), decision);
        EXPECT_EQ(ValidateStrategy(graph, strategy, devices), absl::OkStatus())
            << DecisionText(graph, decision);
      }
    }
  }
}

TEST(SearchSpaceTest, EveryMoveGivesValidStrategiesAndKeepsToTheSubjects) {
  const Graph graph = TrainingGraphOf("resnet_tiny", 6);
  const SearchSpace whole(graph, 4);
  const std::vector<DecisionSubject> subjects = {whole.subjects().front(), whole.subjects()[3],
                                                 whole.subjects().back()};
  const SearchSpace few(graph, 4, subjects);
  for (const SearchSpace& space : {whole, few, whole.Without(subjects)}) {
    std::mt19937_64 random(6);
    std::map<std::string, int> made;
    Strategy strategy = space.RandomStrategy(random);
    for (int k = 0; k < 300; ++k) {
      const Proposal proposal = Propose(space, strategy, random).value();
      ++made[proposal.move->name];
      for (const Decision& decision : proposal.decisions) {
        EXPECT_EQ(std::count(space.subjects().begin(), space.subjects().end(), SubjectOf(decision)),
                  1)
            << proposal.move->name;
        EXPECT_NE(DecisionIn(strategy, SubjectOf(decision)), decision) << proposal.move->name;
      }
      Decide(graph, strategy, proposal.decisions);
      ASSERT_EQ(ValidateStrategy(graph, strategy, 4), absl::OkStatus()) << proposal.move->name;
    }
    for (const SearchMove& move : SearchMoves()) {
      // Those on stages are for more devices, the other one for recurrent models
      // (stage_moves_test.cc).
      const bool is_of_others = move.propose == SplitStage || move.propose == JoinStages ||
                                std::string(move.name) == "whole_layer";
      EXPECT_EQ(made[move.name] >= 15, !is_of_others) << move.name;
      EXPECT_EQ(move.applies(space), !is_of_others) << move.name;
    }
  }
}

TEST(SearchQualityTest, ASearchShardsWeightsWhereCopiesDoNotFit) {
  // Adam's state of one copy of the weights is more than a device has.
  const Graph graph =
      Ok(BuildTrainingGraph(Ok(MakeZooModel("mlp", 64)), {.optimizer = TrainingOptions::kAdam}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine("p100-4x4", 4)));
  const auto costs = MakeSyntheticCostModel(machine);
  const Strategy copies = Ok(DataParallel(graph, machine->topology));
  const Evaluator whole(graph, machine->topology, *costs);
  const Bytes peak = whole.Evaluate(copies).peak[0];
  std::vector<Device> devices(machine->topology.devices().begin(),
                              machine->topology.devices().end());
  for (Device& device : devices) device.memory = Bytes(peak.value() / 10 * 7);
  const auto& links = machine->topology.links();
  const auto topology = Ok(DeviceTopology::Create(devices, {links.begin(), links.end()}));
  const Evaluator evaluator(graph, topology, *costs);
  std::vector<DecisionSubject> weights;
  const SearchSpace all(graph, 4);
  for (int32_t w : all.weights()) {
    weights.push_back(SubjectOfWeight(static_cast<size_t>(w)));
  }
  const SearchProblem problem{evaluator, SearchSpace(graph, 4, weights), {{"copies", copies}}};
  const SearchResult found = Ok(SearchMcmc(problem, {.evaluations = 500}));
  EXPECT_EQ(found.best.configs, copies.configs);
  EXPECT_NE(found.best.weights, copies.weights);
  for (Bytes p : found.evaluation.peak) EXPECT_LE(p, devices[0].memory);
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

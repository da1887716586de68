// Evaluations that stop early decide as complete ones do, and what they stop by never exceeds what
// a step really takes.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/partition/arrivals.h"
#include "graph/partition/fragment_cache.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/least_loads.h"
#include "planner/space/search_space.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

struct Decided {
  int accepted = 0, rejected = 0, bounded = 0;  // bounded: rejected before the step was built
};

// Evaluates with a cutoff near the strategy's time, and without.
void ExpectSameDecision(const Evaluator& early, const Evaluator& complete, const Strategy& strategy,
                        std::mt19937_64& random, Decided& decided) {
  const Evaluation whole = complete.EvaluateBriefly(strategy, kNoCutoff);
  const Nanos cutoff(static_cast<int64_t>(static_cast<double>(whole.time.value()) *
                                          static_cast<double>(random() % 1300) / 1000));
  const Evaluation brief = early.EvaluateBriefly(strategy, cutoff);
  if (whole.time > cutoff) {
    ++decided.rejected;
    decided.bounded += brief.tasks == 0;
    ASSERT_GT(brief.time, cutoff);
    ASSERT_LE(brief.time, whole.time);
  } else {
    ++decided.accepted;
    ASSERT_EQ(brief.time, whole.time);
    ASSERT_EQ(brief.tasks, whole.tasks);
    ASSERT_EQ(brief.peak, whole.peak);
    ASSERT_EQ(brief.verdict, whole.verdict);
  }
}

TEST(EarlyExitTest, DecisionsOfRandomGraphsAreThoseOfCompleteEvaluations) {
  constexpr uint64_t kSeeds = CasesOf(25);
  Decided decided;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = RandomTrainingGraph(random);
    const int devices = static_cast<int>(2 + random() % 9);
    const char* name = random() % 2 == 0 ? "p100-4x4" : "k80-16x4";
    const auto machine = std::make_shared<const Machine>(Ok(FindMachine(name, devices)));
    const auto costs =
        random() % 2 == 0 ? MakeSyntheticCostModel(machine) : MakeDefaultCostModel(machine);
    const Evaluator early(graph, machine->topology, *costs);
    const Evaluator complete(graph, machine->topology, *costs);
    for (int k = 0; k < 20; ++k) {
      ExpectSameDecision(early, complete, RandomStrategy(graph, devices, random), random, decided);
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
    }
  }
  EXPECT_GT(decided.accepted, CasesOf(60));
  EXPECT_GT(decided.bounded, decided.rejected / 4);
}

TEST(EarlyExitTest, DecisionsOfModelsAreThoseOfCompleteEvaluations) {
  for (const char* model : {"alexnet", "resnet_tiny"}) {
    Decided decided;
    const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, 64)), {}));
    const auto machine = std::make_shared<const Machine>(Ok(FindMachine("k80-16x4", 8)));
    const auto costs = MakeSyntheticCostModel(machine);
    const Evaluator early(graph, machine->topology, *costs);
    const Evaluator complete(graph, machine->topology, *costs);
    std::mt19937_64 random(5);
    const SearchSpace space(graph, 8);
    Strategy strategy = space.RandomStrategy(random);
    for (int k = 0; k < 60; ++k) {
      const OpId op = graph.anchors()[random() % graph.anchors().size()];
      strategy.configs[op.index()] = space.RandomConfig(op, random);
      ExpectSameDecision(early, complete, strategy, random, decided);
    }
    EXPECT_GT(decided.accepted, 5) << model;
    EXPECT_GT(decided.bounded, decided.rejected / 2) << model;
  }
}

TEST(EarlyExitTest, AnInterruptedEvaluationLeavesTheCacheSound) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("lenet", 64)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine("k80-16x4", 8)));
  const auto costs = MakeSyntheticCostModel(machine);
  const SearchSpace space(graph, 8);
  int interrupted = 0;
  for (int calls = 0; calls < 60; calls += 5) {
    std::mt19937_64 random(7);
    const Evaluator evaluator(graph, machine->topology, *costs);
    const Strategy strategy = space.RandomStrategy(random);
    int left = calls;
    const Evaluation some =
        evaluator.EvaluateBriefly(strategy, kNoCutoff, [&left] { return --left < 0; });
    interrupted += some.verdict == Evaluation::Verdict::kInterrupted;
    EXPECT_EQ(some.feasible(), left >= 0);
    const Evaluation whole = evaluator.EvaluateBriefly(strategy, kNoCutoff);
    EXPECT_TRUE(whole.feasible()) << whole.reason;
    EXPECT_EQ(whole.time, Evaluator(graph, machine->topology, *costs).Evaluate(strategy).time);
  }
  EXPECT_GT(interrupted, 5);
}

// Elements that fragments bring to a device or node from outside, by destination.
Arrivals ReallyArrive(const TensorFragments& fragments, std::span<const int32_t> node_of_device,
                      int devices) {
  Arrivals real{.at_device = std::vector<int64_t>(static_cast<size_t>(devices))};
  for (const TensorFragment& fragment : fragments.groups) {
    const std::vector<Bytes> received = BytesReceived(fragment.graph);
    for (size_t d = 0; d < received.size(); ++d) real.at_device[d] += received[d].value();
    for (const Task& task : fragment.graph.tasks()) {
      const auto* transfers = std::get_if<TransferTask>(&task.body);
      if (transfers == nullptr || node_of_device.empty()) continue;
      for (const Transfer& transfer : transfers->transfers) {
        const auto to = static_cast<size_t>(node_of_device[transfer.to.index()]);
        real.at_node.resize(std::max(real.at_node.size(), to + 1));
        if (node_of_device[transfer.from.index()] == static_cast<int32_t>(to)) continue;
        real.at_node[to] += transfer.receive.count;
      }
    }
  }
  return real;
}

TEST(ArrivalsTest, NoMoreThanWhatAnExchangeBrings) {
  constexpr uint64_t kSeeds = CasesOf(150);
  int64_t bounded = 0, tight = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = RandomTrainingGraph(random);
    PartitionOptions options = RandomPartitionOptions(random);
    // Point to point, so that every message is a task's own.
    options.collectives = seed % 2 == 0;
    FragmentCache cache(graph, options);
    StepFragments step;
    ASSERT_EQ(cache.FindOrBuild(RandomStrategy(graph, options.devices, random), step),
              absl::OkStatus());
    for (const Tensor& tensor : graph.tensors()) {
      const Arrivals least =
          LeastArrivals(graph, tensor, cache.parts(), options.node_of_device, options.devices);
      const Arrivals real =
          ReallyArrive(*step.tensors[tensor.id.index()], options.node_of_device, options.devices);
      const int64_t size = SizeOf(tensor.type.dtype);
      for (size_t d = 0; d < least.at_device.size(); ++d) {
        ASSERT_LE(least.at_device[d] * size, real.at_device[d])
            << "seed " << seed << " " << tensor.name << " device " << d;
        bounded += least.at_device[d] > 0;
        tight += least.at_device[d] > 0 && least.at_device[d] * size == real.at_device[d];
      }
      if (options.collectives) continue;
      for (size_t n = 0; n < least.at_node.size(); ++n) {
        const int64_t brought = n < real.at_node.size() ? real.at_node[n] : 0;
        ASSERT_LE(least.at_node[n], brought) << "seed " << seed << " " << tensor.name;
      }
    }
  }
  EXPECT_GT(bounded, CasesOf(3000));
  EXPECT_GT(tight, bounded / 2);
}

}  // namespace
}  // namespace partita

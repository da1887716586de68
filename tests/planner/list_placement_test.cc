// Branches of a model side by side, as starts of searches.
#include "planner/search/list_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "planner/pods/pod_problem.h"
#include "tests/planner/fixture.h"
#include "tests/testing/cases.h"
#include "tests/testing/random_graph.h"

namespace partita {
namespace {

constexpr Nanos kLong(int64_t{1} << 60);

std::vector<NamedStrategy> PlacementsOf(const Workplace& at, Nanos most = kLong,
                                        bool is_stopped = false) {
  return ListPlacements(at.Problem(), at.Expert("single_device"), most,
                        [is_stopped] { return is_stopped; });
}

std::set<int32_t> DevicesOfOperator(const Workplace& at, const Strategy& strategy,
                                    const std::string& name) {
  std::set<int32_t> devices;
  for (DeviceId device : strategy.configs[at.Op(name).index()].devices) {
    devices.insert(device.value());
  }
  return devices;
}

bool AreApart(const std::set<int32_t>& a, const std::set<int32_t>& b) {
  return std::ranges::none_of(a, [&](int32_t device) { return b.contains(device); });
}

// One sample for each device, as of large machines: kernels take about as long on one device as on
// all, so that branches are what there is to share.
class BranchPlacementTest : public testing::Test {
 protected:
  BranchPlacementTest() : at_("inception_v3", 8, "h100-2x8", 8) {}

  Nanos TimeOf(const Strategy& strategy) const {
    const Evaluation evaluation = at_.evaluator.EvaluateBriefly(strategy, kNoCutoff);
    EXPECT_TRUE(evaluation.feasible()) << evaluation.reason;
    return evaluation.time;
  }

  const Workplace at_;
};

TEST_F(BranchPlacementTest, PutsBranchesSideBySide) {
  const std::vector<NamedStrategy> placements = PlacementsOf(at_);
  ASSERT_GE(placements.size(), 8u);
  int apart = 0;
  for (const NamedStrategy& one : placements) {
    EXPECT_EQ(one.name, "list_placement");
    ASSERT_EQ(ValidateStrategy(at_.graph, one.strategy, 8), absl::OkStatus());
    const auto of = [&](const std::string& name) {
      return DevicesOfOperator(at_, one.strategy, name);
    };
    apart += AreApart(of("Mixed_5b.branch1x1.conv"), of("Mixed_5b.branch3x3dbl_2.conv"));
    // A chain stays together.
    EXPECT_EQ(of("Mixed_5b.branch3x3dbl_1.conv"), of("Mixed_5b.branch3x3dbl_3.relu"));
  }
  EXPECT_GE(apart, 6);
}

TEST_F(BranchPlacementTest, GoesFromOneDeviceEachToMore) {
  const std::vector<NamedStrategy> placements = PlacementsOf(at_);
  ASSERT_FALSE(placements.empty());
  std::vector<size_t> parts;
  for (const NamedStrategy& one : placements) {
    size_t& sum = parts.emplace_back(0);
    for (OpId op : at_.graph.anchors()) sum += one.strategy.configs[op.index()].devices.size();
  }
  EXPECT_EQ(parts.front(), at_.graph.anchors().size());
  EXPECT_TRUE(std::ranges::is_sorted(parts));
  EXPECT_GT(parts.back(), 2 * parts.front());
}

TEST_F(BranchPlacementTest, IsFasterThanWhatSplitsNoBranches) {
  const Nanos known =
      std::min(TimeOf(at_.Expert("single_device")), TimeOf(at_.Expert("data_parallel")));
  Nanos best = kNoCutoff;
  for (const NamedStrategy& one : PlacementsOf(at_)) best = std::min(best, TimeOf(one.strategy));
  EXPECT_LT(best * 4, known * 3);
}

TEST_F(BranchPlacementTest, IsWhereAutoBegins) {
  SearchProblem problem = at_.Problem();
  problem.starts = {{"single_device", at_.Expert("single_device")},
                    {"data_parallel", at_.Expert("data_parallel")}};
  const SearchResult found = Ok(SearchAuto(problem, {.evaluations = 40, .threads = 1}));
  EXPECT_EQ(found.origin, "list_placement");
  EXPECT_EQ(TimeOf(found.best), found.evaluation.time);
}

TEST_F(BranchPlacementTest, LeavesOutWhatTakesTooLong) {
  const std::vector<NamedStrategy> all = PlacementsOf(at_);
  // Its path alone takes longer.
  const std::vector<NamedStrategy> few =
      PlacementsOf(at_, Nanos(TimeOf(all.front().strategy).value() / 4));
  EXPECT_LT(few.size(), all.size());
  for (const NamedStrategy& one : few) {
    EXPECT_TRUE(std::ranges::any_of(
        all, [&](const NamedStrategy& other) { return other.strategy == one.strategy; }));
  }
  EXPECT_TRUE(PlacementsOf(at_, Nanos(1)).empty());
  EXPECT_TRUE(PlacementsOf(at_, kLong, /*is_stopped=*/true).empty());
}

TEST_F(BranchPlacementTest, IsTheSameEachTime) {
  const std::vector<NamedStrategy> once = PlacementsOf(at_), again = PlacementsOf(at_);
  ASSERT_EQ(once.size(), again.size());
  for (size_t k = 0; k < once.size(); ++k) EXPECT_EQ(once[k].strategy, again[k].strategy);
}

// Sums of gradients over pods take most of the step.
TEST(ListPlacementTest, SpreadsWhatPodsSum) {
  const Workplace at("inception_v3", 512, "h100-64x8", 512);
  const GraphAt graph_at = [](int64_t batch) -> absl::StatusOr<Graph> {
    return TrainingGraphOf("inception_v3", batch);
  };
  const auto pods = Ok(PodProblem::Create(at.evaluator, graph_at, 8));
  const Evaluator& evaluator = pods->evaluator();
  const SearchProblem problem = pods->Problem(/*has_fewer=*/false);
  const Graph& graph = pods->graph();
  const Strategy one = SingleDevice(graph, DeviceId(0));
  const Nanos whole = evaluator.EvaluateBriefly(one, kNoCutoff).time;
  const auto placements = ListPlacements(problem, one, kLong, [] { return false; });
  ASSERT_GE(placements.size(), 8u);
  Nanos best = kNoCutoff;
  for (const NamedStrategy& placed : placements) {
    best = std::min(best, evaluator.EvaluateBriefly(placed.strategy, kNoCutoff).time);
  }
  EXPECT_LT(best * 3, whole * 2);
  // Operators with weights, by device: where each has one.
  std::vector<int> of_device(8, 0);
  for (OpId op : graph.anchors()) {
    const bool has_weights = std::ranges::any_of(graph.op(op).inputs, [&](TensorId input) {
      return graph.tensor(input).kind == TensorKind::kWeight;
    });
    const auto& devices = placements[0].strategy.configs[op.index()].devices;
    ASSERT_EQ(devices.size(), 1u);
    if (has_weights) ++of_device[devices[0].index()];
  }
  EXPECT_GT(*std::ranges::min_element(of_device) * 4, *std::ranges::max_element(of_device))
      << testing::PrintToString(of_device) << " " << best.value() << " of " << whole.value();
}

TEST(ListPlacementTest, HasNothingForAChain) {
  EXPECT_TRUE(PlacementsOf(Workplace("alexnet", 64, "h100-2x8", 8)).empty());
}

// Without a time to beat all are left.
TEST(ListPlacementTest, KnowsNoTimeToBeat) {
  const Workplace at("inception_v3", 8, "h100-2x8", 8);
  EXPECT_EQ(PlacementsOf(at, kNoCutoff).size(), PlacementsOf(at).size());
}

// Devices that are no power of two, and fewer samples than devices.
TEST(ListPlacementTest, UsesWhatThereIs) {
  for (int devices : {1, 2, 3, 5, 6, 7}) {
    SCOPED_TRACE(devices);
    for (const char* model : {"resnet18", "inception_v3"}) {
      const Workplace at(model, 2, "h100-2x8", devices);
      const std::vector<NamedStrategy> placements = PlacementsOf(at);
      ASSERT_FALSE(placements.empty());
      for (const NamedStrategy& one : placements) {
        ASSERT_EQ(ValidateStrategy(at.graph, one.strategy, devices), absl::OkStatus());
      }
      const Evaluation evaluation =
          at.evaluator.EvaluateBriefly(placements.back().strategy, kNoCutoff);
      EXPECT_TRUE(evaluation.feasible()) << evaluation.reason;
    }
  }
}

// Any branches, on one device and more.
TEST(ListPlacementTest, FitsRandomGraphs) {
  size_t placed = 0;
  for (uint64_t seed = 0; seed < CasesOf(60); ++seed) {
    std::mt19937_64 random(seed);
    const int devices = 1 + static_cast<int>(random() % 8);
    const Workplace at(RandomTrainingGraph(random), "p100-4x4", devices);
    for (const NamedStrategy& one : PlacementsOf(at)) {
      ASSERT_EQ(ValidateStrategy(at.graph, one.strategy, devices), absl::OkStatus());
      const Evaluation evaluation = at.evaluator.EvaluateBriefly(one.strategy, kNoCutoff);
      EXPECT_NE(evaluation.verdict, Evaluation::Verdict::kInvalid) << evaluation.reason;
      ++placed;
    }
  }
  EXPECT_GT(placed, CasesOf(30));
}

}  // namespace
}  // namespace partita

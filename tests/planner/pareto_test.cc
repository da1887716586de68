// Fronts of step time against memory, and plans under a limit of memory.
#include "planner/pareto.h"

#include <gtest/gtest.h>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

class ParetoTest : public testing::Test {
 protected:
  ParetoTest() { request_.options.evaluations = 150; }

  const Graph graph_ = Ok(BuildTrainingGraph(Ok(MakeZooModel("mlp_tiny", 64)), {}));
  const std::shared_ptr<const Machine> machine_ =
      std::make_shared<const Machine>(Ok(FindMachine("p100-4x4", 4)));
  const std::unique_ptr<CostModel> costs_ = MakeSyntheticCostModel(machine_);
  const Evaluator evaluator_{graph_, machine_->topology, *costs_};
  PlanRequest request_;
};

TEST_F(ParetoTest, NoPlanOfTheFrontIsAsFastAndAsSmallAsAnother) {
  const std::vector<PlanOutcome> front =
      Ok(FindFront(evaluator_, request_, Ok(MakePlan(evaluator_, request_))));
  ASSERT_GE(front.size(), 2u);
  EXPECT_LE(front.size(), kFrontPlans);
  for (size_t k = 1; k < front.size(); ++k) {
    EXPECT_GT(front[k].step.evaluation.time, front[k - 1].step.evaluation.time);
    EXPECT_LT(LargestPeakOf(front[k].step.evaluation), LargestPeakOf(front[k - 1].step.evaluation));
  }
}

TEST_F(ParetoTest, PlansKeepTheLimitOrSayHowMuchIsMissing) {
  const Bytes free = LargestPeakOf(Ok(MakePlan(evaluator_, request_)).step.evaluation);
  request_.memory_limit = Bytes(free.value() * 3 / 4);
  const PlanOutcome smaller = Ok(MakePlan(evaluator_, request_));
  EXPECT_LE(LargestPeakOf(smaller.step.evaluation), request_.memory_limit);
  request_.memory_limit = Bytes(64);
  const absl::Status none = MakePlan(evaluator_, request_).status();
  EXPECT_TRUE(absl::IsResourceExhausted(none)) << none;
  EXPECT_NE(none.message().find("may take 64"), std::string::npos) << none;
}

// No start fits, but something does: the search is led back.
TEST_F(ParetoTest, SearchLeavesStartsThatDoNotFit) {
  PlanRequest experts = request_;
  experts.search = "experts";
  const std::vector<PlanOutcome> front =
      Ok(FindFront(evaluator_, experts, Ok(MakePlan(evaluator_, experts))));
  request_.options.evaluations = 600;
  request_.memory_limit = Bytes(LargestPeakOf(front.back().step.evaluation).value() - 1);
  experts.memory_limit = request_.memory_limit;
  EXPECT_TRUE(absl::IsResourceExhausted(MakePlan(evaluator_, experts).status()));
  const auto found = MakePlan(evaluator_, request_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_LE(LargestPeakOf(found->step.evaluation), request_.memory_limit);
}

}  // namespace
}  // namespace partita

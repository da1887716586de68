// After profiling, the predicted peak memory of every device is what the runtime allocates, to the
// byte: both come from one function, given the sizes that the backend asks for.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/expert/expert_strategies.h"
#include "planner/planner.h"
#include "tools/workflow/measurement.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/profiling/profiling.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

struct Case {
  std::string model;
  int64_t batch;
  int devices;
};

class MemoryPredictionTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    profile_ = absl::StrCat(testing::TempDir(), "memory_prediction_", GetParam().model,
                            GetParam().devices, ".db");
    std::remove(profile_.c_str());
  }
  void TearDown() override { std::remove(profile_.c_str()); }

  PricedMachine Priced() const {
    MachineRequest request;
    request.devices = GetParam().devices;
    request.oversubscribe = true;
    request.profile = profile_;
    auto priced = PriceMachine(request);
    EXPECT_TRUE(priced.ok()) << priced.status();
    return *std::move(priced);
  }

  static absl::StatusOr<PlanOutcome> Plan(const Graph& graph, const PricedMachine& priced,
                                          const std::string& strategy) {
    const Evaluator evaluator(graph, priced.machine->topology, *priced.model,
                              {.choices = DefaultChoices(priced), .sizes = SizesOn(priced)});
    PlanRequest request;
    request.strategy = strategy;
    request.options.evaluations = 200;
    request.options.seed = 7;
    return MakePlan(evaluator, request);
  }

  // The plan once the profile knows every one of its kernels; a search may turn to others then.
  absl::StatusOr<PlanOutcome> ProfiledPlan(const Graph& graph, const std::string& strategy) const {
    for (int round = 0;; ++round) {
      const PricedMachine priced = Priced();
      auto outcome = Plan(graph, priced, strategy);
      if (!outcome.ok()) return outcome;
      ProfilingRequest request;
      request.profile = profile_;
      request.samples = 1;  // times do not matter here
      const auto result = ProfileSignatures(SignaturesOf(outcome->step.tasks), priced, request);
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok() || result->measured == 0) return outcome;
      if (round == 20) return absl::DeadlineExceededError("the search never settles");
    }
  }

  std::string profile_;
};

TEST_P(MemoryPredictionTest, PeakIsWhatIsAllocatedToTheByte) {
  const auto model = LoadTrainingModel({GetParam().model, GetParam().batch});
  ASSERT_TRUE(model.ok()) << model.status();
  int checked = 0;
  for (const std::string strategy :
       {"single_device", "data_parallel", "one_weird_trick", "model_parallel", ""}) {
    SCOPED_TRACE(strategy.empty() ? "searched" : strategy);
    const auto outcome = ProfiledPlan(model->graph, strategy);
    if (absl::IsFailedPrecondition(outcome.status())) continue;  // the expert declines
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const auto start = InitialState(model->graph, 1);
    ASSERT_TRUE(start.ok()) << start.status();
    const auto plan = MeasuredPlan::Open(model->graph, outcome->plan, *start);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_TRUE((*plan)->Step().ok());
    for (int d = 0; d < GetParam().devices; ++d) {
      EXPECT_EQ((*plan)->Allocated(DeviceId(d)),
                outcome->step.evaluation.peak[static_cast<size_t>(d)])
          << "device " << d;
      EXPECT_GT((*plan)->Allocated(DeviceId(0)), Bytes(0));
    }
    ++checked;
  }
  EXPECT_GE(checked, GetParam().devices == 1 ? 2 : 4);
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryPredictionTest,
                         testing::Values(Case{"lenet", 16, 1}, Case{"lenet", 15, 2},
                                         Case{"resnet_tiny", 4, 1}, Case{"resnet_tiny", 4, 2},
                                         Case{"alexnet_s_tiny", 4, 1},
                                         Case{"alexnet_s_tiny", 4, 2}));

}  // namespace
}  // namespace partita

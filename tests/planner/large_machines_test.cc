// Experts on machines of up to 1,024 devices: strategies as large as operators times devices.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/expert/expert_strategies.h"
#include "tests/testing/cases.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

class LargeMachinesTest : public testing::TestWithParam<std::string> {};

TEST_P(LargeMachinesTest, EveryExpertIsValidAndHasAPartForEachOperatorAndDeviceAtMost) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(GetParam(), 1024)), {}));
  for (const char* machine : {"h100-2x8", "h100-128x8"}) {
    const DeviceTopology topology = Ok(FindMachine(machine)).topology;
    for (const ExpertRow& row : ExpertStrategies()) {
      SCOPED_TRACE(std::string(row.name) + " on " + machine);
      const auto strategy = row.make(graph, topology);
      if (!strategy.ok()) {
        EXPECT_EQ(strategy.status().code(), absl::StatusCode::kFailedPrecondition);
        continue;
      }
      EXPECT_EQ(ValidateStrategy(graph, *strategy, topology.size()), absl::OkStatus());
      // Rounds and blocks are several on a device, on smaller machines.
      const int64_t each = topology.size() <= 64 ? 64 : 1;
      for (OpId id : graph.anchors()) {
        EXPECT_LE(PartCount(strategy->configs[id.index()]), each * topology.size());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, LargeMachinesTest,
                         testing::ValuesIn(CasesOf(std::vector<std::string>{"alexnet", "gpt_125m",
                                                                            "rnnlm"})),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace partita

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "graph/verify/plan_verifier.h"
#include "planner/expert/expert_strategies.h"
#include "planner/planner.h"
#include "tests/planner/fixture.h"
#include "tests/testing/cases.h"

namespace partita {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

bool HasOperator(const Graph& graph, bool (*is_one)(const OpAttrs&)) {
  return std::any_of(graph.ops().begin(), graph.ops().end(),
                     [&](const Operator& op) { return is_one(op.attrs); });
}

// Whether tensor parallelism divides what it splits: heads of attention, or, in models without it,
// what every second layer sums over.
bool DividesEvenly(const Graph& graph, int ways) {
  bool attends = false, even = true;
  int layer = 0;
  for (const Operator& op : graph.ops()) {
    if (!op.pass.is_forward()) continue;
    const Shape& x = graph.tensor(op.inputs[0]).type.shape;
    if (std::holds_alternative<BatchMatMul>(op.attrs)) {
      attends = true;
      if (x[1] % ways != 0) return false;
    } else if (std::holds_alternative<MatMul>(op.attrs) && layer++ % 2 == 1) {
      even &= x.back() % ways == 0;
    }
  }
  return attends || even;
}

// Channels are few: their blocks may be too large to balance devices.
bool IsNarrow(const Graph& graph) {
  int64_t parameters = 0;
  for (const Weight& weight : graph.weights()) {
    parameters += Volume(graph.tensor(weight.tensor).type.shape);
  }
  return parameters < 16'384;
}

// The same for strategies that split products of weights.
std::string ExpectedDeclineOfProducts(const std::string& expert, const Graph& graph, int devices) {
  const bool recurs =
      HasOperator(graph, [](const OpAttrs& a) { return std::holds_alternative<LstmGates>(a); });
  const bool convolves =
      HasOperator(graph, [](const OpAttrs& a) { return std::holds_alternative<Conv2d>(a); }) &&
      !HasOperator(graph, [](const OpAttrs& a) { return std::holds_alternative<BatchMatMul>(a); });
  if (expert.starts_with("tensor")) {
    if (expert != "tensor_2d" || devices < 4) return "form no grid";
    return convolves ? "most of the work" : "";
  }
  if (recurs) return "recurrent layers";
  const bool hybrid = expert == "data_tensor";
  if (hybrid && devices < 4) return "no groups of several devices";
  if (convolves) return "most of the work";
  return DividesEvenly(graph, hybrid ? 2 : devices) ? "" : "equal parts";
}

// What the decline of an expert should say; empty: it may not decline.
std::string ExpectedDecline(const std::string& expert, const Graph& graph, int devices) {
  if (expert == "single_device") return "";
  if (devices == 1) return "one device";
  // Images, or the heads of attention.
  const bool images = std::any_of(graph.tensors().begin(), graph.tensors().end(),
                                  [](const Tensor& t) { return t.type.shape.size() == 4; });
  const bool dense = std::any_of(graph.ops().begin(), graph.ops().end(), [&](const Operator& op) {
    const Shape& y = graph.tensor(op.outputs[0]).type.shape;
    return op.pass.is_forward() && std::holds_alternative<MatMul>(op.attrs) && y.size() == 2 &&
           y[1] >= devices;
  });
  const bool pools =
      HasOperator(graph, [](const OpAttrs& a) { return std::holds_alternative<Pool2d>(a); });
  if (expert.starts_with("one_weird_trick") && !dense) return "no fully connected layer";
  if (expert == "spatial" && !images) return "no operator on images";
  if (expert == "operator_placement" && !pools) return "no pooling";
  if (expert == "rnn_placement" || expert == "rnn_stages") {
    const bool recurs =
        HasOperator(graph, [](const OpAttrs& a) { return std::holds_alternative<LstmGates>(a); });
    return recurs ? "" : "no recurrent layers";
  }
  if (expert == "megatron" || expert == "data_tensor" || expert.starts_with("tensor")) {
    return ExpectedDeclineOfProducts(expert, graph, devices);
  }
  return "";
}

class ExpertTest : public testing::TestWithParam<std::string> {};

TEST_P(ExpertTest, EveryStrategyVerifiesOrDeclinesWithItsReason) {
  const Graph graph = TrainingGraphOf(GetParam(), 8);
  // Large graphs on one number of devices: each takes its time.
  const int least = graph.ops().size() > 500 ? 3 : 1, most = graph.ops().size() > 500 ? 3 : 4;
  for (int devices = least; devices <= most; ++devices) {
    const DeviceTopology topology = VirtualCpuDevices(devices);
    for (const ExpertRow& row : ExpertStrategies()) {
      SCOPED_TRACE(std::string(row.name) + " on " + std::to_string(devices));
      const auto strategy = row.make(graph, topology);
      std::string decline = ExpectedDecline(row.name, graph, devices);
      if (std::string(row.name) == "hypergraph" && IsNarrow(graph) && !strategy.ok()) {
        decline = devices == 1 ? "one device" : "too large to balance";
      }
      EXPECT_EQ(strategy.ok(), decline.empty()) << strategy.status();
      if (!strategy.ok()) {
        EXPECT_EQ(strategy.status().code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_THAT(std::string(strategy.status().message()), HasSubstr(decline));
        continue;
      }
      const Plan plan{.model = {.fingerprint = graph.fingerprint()},
                      .topology = topology,
                      .strategy = *strategy};
      EXPECT_EQ(VerifyPlan(graph, plan), absl::OkStatus());
    }
  }
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const ZooModel& model : ZooModels()) {
    // The deepest are the layers of the others, more often.
    constexpr size_t kMostOperators = 500;
    if (model.make(8)->ops().size() <= kMostOperators) names.emplace_back(model.name);
  }
  return CasesOf(names);
}
INSTANTIATE_TEST_SUITE_P(Zoo, ExpertTest, testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });

TEST(ExpertTableTest, PlansOfExpertsAreCancelledOnceTheyAreToStop) {
  const Workplace at("lenet", 64, "p100-4x4", 4);
  const std::atomic<bool> stop = true;
  PlanRequest request{.strategy = "model_parallel"};
  EXPECT_EQ(MakePlan(at.evaluator, request).status(), absl::OkStatus());
  request.options.stop = &stop;
  const auto outcome = MakePlan(at.evaluator, request);
  EXPECT_TRUE(absl::IsCancelled(outcome.status())) << outcome.status();
}

TEST(ExpertTableTest, UnknownNamesAreAnsweredWithTheKnownOnes) {
  const auto expert = ExpertNamed("magic");
  EXPECT_EQ(expert.status().code(), absl::StatusCode::kNotFound);
  for (const ExpertRow& row : ExpertStrategies()) {
    EXPECT_THAT(std::string(expert.status().message()), HasSubstr(row.name));
    EXPECT_EQ(*ExpertNamed(row.name), row.make);
  }
}

TEST(ExpertTableTest, OneWeirdTrickOfAlexNetIsFlexFlowsReleasedStrategy) {
  // Convolutions and pools 4 ways by sample, the three linear layers 4 ways by channel.
  const Graph graph = TrainingGraphOf("alexnet", 64);
  const Strategy strategy = Ok(OneWeirdTrick(graph, VirtualCpuDevices(4)));
  for (OpId id : graph.anchors()) {
    const Operator& op = graph.op(id);
    const ShardingRule& rule = graph.rule(id);
    const ParallelConfig& config = strategy.configs[id.index()];
    const bool dense = std::holds_alternative<MatMul>(op.attrs);
    const bool image =
        std::holds_alternative<Conv2d>(op.attrs) || std::holds_alternative<Pool2d>(op.attrs);
    if (!dense && !image) continue;
    const auto loop = static_cast<size_t>(rule.FindLoop(dense ? "o" : "n"));
    EXPECT_EQ(config.degrees[loop], 4) << op.name;
    EXPECT_THAT(config.devices, ElementsAre(DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)))
        << op.name;
  }
}

TEST(ExpertTableTest, RoundsOfOneWeirdTrickTakeOneDevicesSamplesEach) {
  const Graph graph = TrainingGraphOf("alexnet", 64);
  const Strategy strategy = Ok(OneWeirdTrickRounds(graph, VirtualCpuDevices(4)));
  int dense = 0;
  for (OpId id : graph.anchors()) {
    if (!std::holds_alternative<MatMul>(graph.op(id).attrs)) continue;
    const ShardingRule& rule = graph.rule(id);
    const ParallelConfig& config = strategy.configs[id.index()];
    EXPECT_EQ(config.degrees[static_cast<size_t>(rule.FindLoop("n"))], 4);
    EXPECT_EQ(config.degrees[static_cast<size_t>(rule.FindLoop("o"))], 4);
    for (size_t p = 0; p < config.devices.size(); ++p) {
      EXPECT_EQ(config.devices[p], DeviceId(static_cast<int32_t>(p % 4)));  // a round after another
    }
    ++dense;
  }
  EXPECT_EQ(dense, 3);
}

TEST(ExpertTableTest, RoundsOfOneWeirdTrickAreOfSomeSamplesAndFewParts) {
  const Graph graph = TrainingGraphOf("alexnet", 4);
  const auto declined = [&](int devices) {
    return std::string(OneWeirdTrickRounds(graph, VirtualCpuDevices(devices)).status().message());
  };
  EXPECT_THAT(declined(8), HasSubstr("fewer samples than there are devices"));
  EXPECT_THAT(declined(64), HasSubstr("4096 parts"));
}

TEST(ExpertTableTest, OperatorPlacementPutsPoolsOnOtherDevicesThanWeights) {
  const Graph graph = TrainingGraphOf("lenet", 8);
  const Strategy strategy = Ok(OperatorPlacement(graph, VirtualCpuDevices(4)));
  for (OpId id : graph.anchors()) {
    const bool pool = std::holds_alternative<Pool2d>(graph.op(id).attrs);
    for (DeviceId device : strategy.configs[id.index()].devices) {
      EXPECT_EQ(device.value() >= 2, pool) << graph.op(id).name;
    }
  }
}

TEST(ExpertTableTest, FewerSamplesThanDevicesAreSplitAsFarAsTheyGo) {
  const Graph graph = TrainingGraphOf("mlp_tiny", 2);
  const Strategy strategy = Ok(DataParallel(graph, VirtualCpuDevices(4)));
  for (OpId id : graph.anchors()) {
    EXPECT_LE(PartCount(strategy.configs[id.index()]), 2) << graph.op(id).name;
  }
  const Plan plan{.model = {.fingerprint = graph.fingerprint()},
                  .topology = VirtualCpuDevices(4),
                  .strategy = strategy};
  EXPECT_EQ(VerifyPlan(graph, plan), absl::OkStatus());
}

}  // namespace
}  // namespace partita

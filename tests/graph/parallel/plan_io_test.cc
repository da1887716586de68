#include "graph/parallel/plan_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <ctime>
#include <random>
#include <span>
#include <string>

#include "absl/strings/str_replace.h"
#include "graph/parallel/plan_collectives.h"
#include "graph/partition/planned_step.h"
#include "graph/support/check.h"
#include "graph/task/task_order.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "tests/planner/strategies.h"
#include "tests/testing/cases.h"
#include "tests/testing/random_collectives.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kDevices = 3;

Graph MakeGraph(int64_t batch = 12) {
  auto model = MakeZooModel("mlp_tiny", batch);
  CHECK(model.ok()) << model.status();
  auto graph = BuildTrainingGraph(*model, {});
  CHECK(graph.ok()) << graph.status();
  return *std::move(graph);
}

Plan MakePlan(const Graph& graph, std::mt19937_64& random) {
  Plan plan{
      .model = {.source = "mlp_tiny", .batch = graph.batch(), .fingerprint = graph.fingerprint()},
      .topology = VirtualCpuDevices(kDevices, Bytes(1 << 30)),
      .strategy = RandomStrategy(graph, kDevices, random),
      .choices = {.collectives = random() % 2 == 0,
                  .direct_bytes = static_cast<int64_t>(random() % 3) << 10,
                  .fuse = random() % 2 == 0,
                  .native_formats = random() % 2 == 0}};
  plan.strategy = WithRandomCollectives(graph, plan.strategy,
                                        PartitionOptionsOf(plan.topology, plan.choices), random);
  plan.prediction = Prediction{.time = Nanos(123456),
                               .peak = {Bytes(1), Bytes(2), Bytes(3)},
                               .received = {Bytes(4), Bytes(5), Bytes(6)},
                               .measured = 7,
                               .interpolated = 8,
                               .roofline = 9};
  plan.choices.precision = kPrecisions[random() % std::size(kPrecisions)].precision;
  if (random() % 2 == 0) plan.choices.float32_classes = {"p100", "k80"};
  plan.choices.nondeterministic = random() % 2 == 0;
  plan.provenance = {.program_version = "0.1.0",
                     .search = "mcmc",
                     .machine = "p100-4x4",
                     .seed = uint64_t{1} << 63,
                     .evaluations = 1000,
                     .options = {"beta=0.5", "starts=\"3\""}};
  plan.priority = "local_path";
  if (random() % 2 == 0) plan.priority_draws = {0, 7, uint32_t{1} << 31};
  auto step = BuildPlannedStep(graph, plan);
  CHECK(step.ok()) << step.status();
  plan.order = PlanOrder{.task_graph_fingerprint = step->tasks.fingerprint()};
  for (TaskId id : step->order) plan.order->tasks.push_back(id.value());
  return plan;
}

absl::StatusOr<Plan> FromText(const std::string& text, const Graph& graph) {
  auto message = ParsePlanText(text, "x.plan");
  if (!message.ok()) return message.status();
  return PlanFromProto(*message, graph);
}

TEST(PlanIoTest, TextKeepsEverything) {
  const Graph graph = MakeGraph();
  std::mt19937_64 random(41);
  for (int round = 0; round < 30; ++round) {
    const Plan plan = MakePlan(graph, random);
    const auto read = FromText(PlanText(plan, graph), graph);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, plan);
  }
}

TEST(PlanIoTest, FilesKeepEverything) {
  const Graph graph = MakeGraph();
  std::mt19937_64 random(43);
  const Plan plan = MakePlan(graph, random);
  const std::string path = testing::TempDir() + "/plan_io_test.plan.textproto";
  ASSERT_TRUE(WritePlanFile(plan, graph, path).ok());
  const auto message = ReadPlanFile(path);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(*PlanModelOf(*message), plan.model);
  EXPECT_EQ(*PlanFromProto(*message, graph), plan);
  EXPECT_EQ(ReadPlanFile(path + ".none").status().code(), absl::StatusCode::kNotFound);
}

TEST(PlanIoTest, TextIsWrittenForPeople) {
  const Graph graph = MakeGraph();
  Plan plan{.model = {.source = "mlp_tiny", .batch = 12, .fingerprint = graph.fingerprint()},
            .topology = VirtualCpuDevices(2),
            .strategy = SplitFirstLoop(graph, 2)};
  const std::string text = PlanText(plan, graph);
  EXPECT_THAT(text, HasSubstr("op {\n  name: \"0\"\n  split {\n    loop: \"n\"\n"
                              "    degree: 2\n  }\n  replicas: 1\n  devices: [0, 1]\n}\n"));
}

TEST(PlanIoTest, ADrawThatComesTwiceIsRefused) {
  const Graph graph = MakeGraph();
  Plan plan{.model = {.source = "mlp_tiny", .batch = 12, .fingerprint = graph.fingerprint()},
            .topology = VirtualCpuDevices(2),
            .strategy = SplitFirstLoop(graph, 2)};
  plan.priority_draws = {5, 7, 5};
  const auto read = FromText(PlanText(plan, graph), graph);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("priority_draws: 5 comes twice"));
}

TEST(PlanIoTest, SizesOfTheModelAreKept) {
  const Graph graph = MakeGraph();
  Plan plan{.model = {.source = "gpt", .batch = 12, .fingerprint = graph.fingerprint()},
            .topology = VirtualCpuDevices(2),
            .strategy = SplitFirstLoop(graph, 2)};
  plan.model.sizes = {.unroll = 2,
                      .size = "13b",
                      .layers = 3,
                      .width = 4,
                      .heads = 5,
                      .sequence = 6,
                      .vocabulary = 7};
  const auto read = FromText(PlanText(plan, graph), graph);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->model.sizes, plan.model.sizes);
}

// Thousands of pods have as many collectives of each tensor.
TEST(PlanIoTest, CollectivesThatFollowEachOtherAreARange) {
  const Graph graph = MakeGraph();
  Plan plan{.model = {.source = "mlp_tiny", .batch = 12, .fingerprint = graph.fingerprint()},
            .topology = VirtualCpuDevices(2),
            .strategy = SplitFirstLoop(graph, 2)};
  const TensorId first(1), second(2);
  for (int32_t step : {0, 1, 2, 3, 5, 7, 8}) {
    plan.strategy.algorithms.push_back({{first, step}, step == 2 ? "direct" : "ring"});
  }
  plan.strategy.algorithms.push_back({{second, 9}, "ring"});
  const std::string text = PlanText(plan, graph);
  EXPECT_THAT(text, HasSubstr("step: 7\n    last: 8\n"));
  EXPECT_THAT(text, Not(HasSubstr("last: 9")));
  const auto read = FromText(text, graph);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, plan);
}

TEST(PlanIoTest, ManyDevicesAreRanges) {
  const Graph graph = MakeGraph(24);
  const OpId op = graph.anchors()[0];
  Plan plan{.model = {.source = "mlp_tiny", .batch = 24, .fingerprint = graph.fingerprint()},
            .topology = VirtualCpuDevices(24),
            .strategy = SplitFirstLoop(graph, 24)};
  ParallelConfig& config = plan.strategy.configs[op.index()];
  for (int k = 0; k < 24; ++k)
    config.devices[static_cast<size_t>(k)] = DeviceId(k % 12 * 2 + k / 12);
  const std::string text = PlanText(plan, graph);
  EXPECT_THAT(text, HasSubstr("range {\n    first: 1\n    last: 23\n    step: 2\n  }\n"));
  const auto read = FromText(text, graph);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, plan);
  for (const auto& [from, to, says] : std::vector<std::array<std::string, 3>>{
           {"step: 2", "step: 3", "devices 0 to 22 are not in steps of 3"},
           {"last: 22", "last: 24", "found 25 devices for 24 parts"},
           {"last: 22", "last: 2000000000", "ranges of more than 67108864 devices"}}) {
    const std::string bad = absl::StrReplaceAll(text, {{from, to}});
    EXPECT_THAT(std::string(FromText(bad, graph).status().message()), HasSubstr(says));
  }
}

// Format 1 had no choices for collectives: they run by size, as they did.
TEST(PlanIoTest, PlansOfTheFirstFormatAreRead) {
  const Graph graph = MakeGraph();
  const Plan plan{.model = {.source = "mlp_tiny", .batch = 12, .fingerprint = graph.fingerprint()},
                  .topology = VirtualCpuDevices(2),
                  .strategy = SplitFirstLoop(graph, 2)};
  const std::string text =
      absl::StrReplaceAll(PlanText(plan, graph), {{"format_version: 2", "format_version: 1"}});
  const auto read = FromText(text, graph);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, plan);
}

// Plans that a change of the text makes wrong, and what the error must say.
struct BadPlan {
  std::string from, to;
  std::vector<std::string> says;
};

// Each of the changes is refused with what its error must say.
void ExpectRefused(std::span<const BadPlan> bad_plans) {
  const Graph graph = MakeGraph();
  const Plan plan{.model = {.source = "mlp_tiny", .batch = 12, .fingerprint = graph.fingerprint()},
                  .topology = VirtualCpuDevices(2),
                  .strategy = SplitFirstLoop(graph, 2)};
  const std::string good = PlanText(plan, graph);
  ASSERT_TRUE(FromText(good, graph).ok());
  for (const BadPlan& bad : bad_plans) {
    std::string text = good;
    // The default host device is not written.
    if (bad.from == "host_device: 0") text += "host_device: 0\n";
    const size_t at = text.find(bad.from);
    ASSERT_NE(at, std::string::npos) << bad.from;
    text.replace(at, bad.from.size(), bad.to);
    const auto read = FromText(text, graph);
    ASSERT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << bad.to;
    for (const std::string& said : bad.says) {
      EXPECT_THAT(std::string(read.status().message()), HasSubstr(said));
    }
  }
}

TEST(PlanIoTest, ErrorsSayWhatWasFoundAndWanted) {
  const BadPlan bad_plans[] = {
      {"format_version: 2", "format_version: 9", {"format_version 9", "wanted 1 to 2"}},
      {"format_version: 2", "format_version: 0", {"format_version 0", "wanted 1 to 2"}},
      {"name: \"0\"", "name: \"fc9\"", {"'fc9'", "another model"}},
      {"name: \"1\"", "name: \"0\"", {"'0' twice"}},
      {"loop: \"n\"", "loop: \"zz\"", {"no loop 'zz'", "its loops: n"}},
      {"degree: 2", "degree: 3", {"found 2 devices for 3 parts"}},
      {"degree: 2", "degree: 1000000", {"cannot be split 1000000 ways"}},
      {"devices: [0, 1]", "devices: [0, 2]", {"device 2 does not exist", "has 2"}},
      {"batch: 12", "batch: 13", {"batch of 13", "one of 12"}},
      {"batch: 12", "batch: -12", {"batch -12"}},
      {"fingerprint: \"", "fingerprint: \"zz", {"16 hexadecimal digits"}},
      {"host_device: 0", "host_device: 5", {"host device"}},
      {"topology {", "topology { devices { name: \"z\" }", {"'z' has no kind"}},
      {"op {", "op { colour: 3", {"x.plan:", "colour"}},
      {"topology {",
       "order: \"0 1 x\" task_graph_fingerprint: \"0123456789abcdef\" topology {",
       {"\"x\""}},
      {"topology {",
       "order: \"0 2\" task_graph_fingerprint: \"0123456789abcdef\" topology {",
       {"has task 2"}},
      {"topology {", "order: \"0-1\" topology {", {"task_graph_fingerprint", "16 hexadecimal"}},
      {"topology {",
       "weight { name: \"0.weight\" parameter { lo: 0 hi: 1 } } topology {",
       {"'0.weight' has 2 dimensions"}},
      {"topology {",
       "weight { name: \"0.weight\" update { lo: [0, 0] hi: [5, 5] } } topology {",
       {"'0.weight': no device holds"}},
      {"topology {",
       "weight { name: \"0.weight\" parameter { lo: [0, 0] hi: [96, 64] device: 1 } "
       "parameter { lo: [0, 0] hi: [96, 64] device: 1 } } topology {",
       {"'0.weight'", "[0:96,0:64]", "on device 1 twice", "wanted each region once"}},
      {"topology {",
       "weight { name: \"0.weight\" update { lo: [0, 0] hi: [4294967392, 64] } } topology {",
       {"'0.weight'", "'4294967392'", "wanted 0 to 2147483647"}},
      {"topology {", "weight { name: \"w\" } topology {", {"'w'", "model lacks"}},
  };
  ExpectRefused(bad_plans);
}

TEST(PlanIoTest, ErrorsSayWhichCollectivesAreWrong) {
  const BadPlan bad_plans[] = {
      {"partition {",
       "partition { algorithm: \"ring\"",
       {"one algorithm for all collectives, 'ring'", "delete partition's algorithm", "plan again"}},
      {"topology {",
       "algorithm { name: \"magic\" collective { tensor: \"d:0.weight\" } } topology {",
       {"'magic'", "there are", "ring"}},
      {"topology {",
       "algorithm { name: \"ring\" collective { tensor: \"z\" } } topology {",
       {"a collective of tensor 'z'", "model lacks"}},
      {"topology {",
       "bucket { member { tensor: \"d:0.weight\" } } topology {",
       {"a bucket has 1 all-reduces", "two or more"}},
      {"topology {",
       "bucket { member { tensor: \"d:0.weight\" } member { tensor: \"d:0.weight\" } } topology {",
       {"'d:0.weight' twice"}},
      {"topology {",
       "algorithm { name: \"ring\" collective { tensor: \"d:0.weight\" last: 4 } } "
       "algorithm { name: \"ring\" collective { tensor: \"d:0.weight\" step: 4 } } topology {",
       {"step 4 of tensor 'd:0.weight' twice"}},
      {"topology {",
       "algorithm { name: \"ring\" collective { tensor: \"d:0.weight\" last: 4 } } "
       "bucket { member { tensor: \"d:0.bias\" } member { tensor: \"d:0.weight\" step: 3 } } "
       "topology {",
       {"step 3 of tensor 'd:0.weight' twice"}},
      {"topology {",
       "bucket { member { tensor: \"d:0.weight\" last: 1 } member { tensor: \"d:0.bias\" } } "
       "topology {",
       {"'d:0.weight'", "single steps"}},
      {"topology {",
       "algorithm { name: \"ring\" collective { tensor: \"d:0.weight\" step: 3 last: 2 } } "
       "topology {",
       {"3 to 2 of tensor 'd:0.weight'", "wanted a later last"}},
      {"topology {",
       "algorithm { name: \"ring\" collective { tensor: \"d:0.weight\" last: 2147483647 } } "
       "topology {",
       {"0 to 2147483647", "wanted at most 2097152 collectives"}},
  };
  ExpectRefused(bad_plans);
}

// As many as a plan may name are checked in a small part of a second.
TEST(PlanIoTest, ManyCollectivesAreCheckedInLittleTime) {
  const Graph graph = MakeGraph();
  Strategy strategy;
  for (int32_t step = 0; step < kMostChoices; ++step) {
    strategy.algorithms.push_back({{TensorId(0), step}, "ring"});
  }
  const std::clock_t begin = std::clock();
  EXPECT_EQ(ValidateCollectives(graph, strategy), absl::OkStatus());
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, kSanitized ? 8 : 0.25) << seconds;
  std::swap(strategy.algorithms.front(), strategy.algorithms.back());
  EXPECT_THAT(ValidateCollectives(graph, strategy).message(),
              HasSubstr("not sorted by tensor and step"));
}

TEST(PlanIoTest, PlanForAnotherModelIsRefused) {
  const Graph graph = MakeGraph();
  std::mt19937_64 random(47);
  Plan plan = MakePlan(graph, random);
  plan.model.fingerprint ^= 1;
  const auto read = FromText(PlanText(plan, graph), graph);
  EXPECT_THAT(std::string(read.status().message()),
              AllOf(HasSubstr("fingerprint"), HasSubstr("plan again")));
}

TEST(PlannedStepTest, OrderOfAnotherTaskGraphIsLeftOutWithANote) {
  const Graph graph = MakeGraph();
  std::mt19937_64 random(53);
  Plan plan = MakePlan(graph, random);
  plan.strategy = SplitFirstLoop(graph, kDevices);
  const auto step = BuildPlannedStep(graph, plan);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_THAT(step->note, AllOf(HasSubstr("fingerprint"), HasSubstr("plan again")));
  plan.order.reset();
  const auto canonical = BuildPlannedStep(graph, plan);
  ASSERT_TRUE(canonical.ok());
  EXPECT_THAT(canonical->note, AllOf(HasSubstr("no order"), HasSubstr(plan.priority)));
  EXPECT_EQ(step->order, canonical->order);
}

TEST(PlannedStepTest, PlanWithoutOrderAndRuleRunsInTheCanonicalOrderWithoutANote) {
  const Graph graph = MakeGraph();
  std::mt19937_64 random(61);
  Plan plan = MakePlan(graph, random);
  plan.order.reset();
  plan.priority.clear();
  plan.priority_draws.clear();
  const auto step = BuildPlannedStep(graph, plan);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->note, "");
  EXPECT_EQ(step->order, CanonicalOrder(step->tasks));
}

TEST(PlannedStepTest, OrderWithoutATaskIsRefused) {
  const Graph graph = MakeGraph();
  std::mt19937_64 random(57);
  Plan plan = MakePlan(graph, random);
  plan.order->tasks.pop_back();
  const auto step = BuildPlannedStep(graph, plan);
  EXPECT_EQ(step.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(step.status().message()),
              AllOf(HasSubstr("tasks"), HasSubstr("delete order")));
}

TEST(PlannedStepTest, OrderAgainstADependencyIsRefused) {
  const Graph graph = MakeGraph();
  std::mt19937_64 random(59);
  Plan plan = MakePlan(graph, random);
  std::reverse(plan.order->tasks.begin(), plan.order->tasks.end());
  const auto step = BuildPlannedStep(graph, plan);
  EXPECT_EQ(step.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(step.status().message()), HasSubstr("depends on"));
}

TEST(PlanOrderTest, TextJoinsRuns) {
  EXPECT_EQ(OrderText({}), "");
  EXPECT_EQ(OrderText({0, 1, 2, 5, 4, 7, 8}), "0-2 5 4 7-8");
  EXPECT_EQ(*ParseOrder("0-2 5 4 7-8", 7), (std::vector<int32_t>{0, 1, 2, 5, 4, 7, 8}));
  EXPECT_FALSE(ParseOrder("0-2 5 4 7-8", 6).ok());
  EXPECT_FALSE(ParseOrder("0-2000000000", 1 << 20).ok());
  EXPECT_FALSE(ParseOrder("3-1", 10).ok());
  EXPECT_FALSE(ParseOrder("-1", 10).ok());
  EXPECT_FALSE(ParseOrder("1-", 10).ok());
}

}  // namespace
}  // namespace partita

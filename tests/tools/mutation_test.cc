// Damaged models, plans and machine files: every one is read or refused with a message, without a
// crash, within two seconds of processor time and half a gigabyte of memory. What is read is taken
// as far as planning goes. Continuous integration takes 20,000 files, under sanitizers a tenth of
// them, the long run 200,000.

#include "tests/testing/mutation.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/model/model_io.h"
#include "graph/model/model_source.h"
#include "graph/model/model_summary.h"
#include "graph/parallel/plan_io.h"
#include "graph/partition/planned_step.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "tests/testing/cases.h"
#include "tests/testing/random_collectives.h"
#include "tests/testing/random_strategy.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

constexpr double kSecondsOfAFile = 2;
constexpr double kMegabytes = 512;

// Which mutations to make: one for each seed.
struct Seeds {
  uint64_t first = 0;
  uint64_t count = 0;
};
Seeds Slice(uint64_t count) { return {0, kSanitized ? count / 10 : count}; }
Seeds Long(uint64_t count) { return {1'000'000, count}; }

// What became of the files of one kind.
class Tally {
 public:
  explicit Tally(std::string kind) : kind_(std::move(kind)), begin_(std::clock()) {}

  // Before and after a file is read.
  void Begin() { begin_ = std::clock(); }
  void End(uint64_t seed, const absl::Status& status) {
    const double seconds = static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC;
    if (seconds > slowest_) {
      slowest_ = seconds;
      slowest_seed_ = seed;
    }
    ++(status.ok() ? accepted_ : refused_);
    // What a user gets exit code 3 for.
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status) || absl::IsNotFound(status))
        << "seed " << seed << ": " << status;
    EXPECT_TRUE(status.ok() || !status.message().empty()) << "seed " << seed;
  }

  void Check(Seeds seeds) const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double megabytes = static_cast<double>(usage.ru_maxrss) / 1024;
    std::cout << kind_ << ": seeds " << seeds.first << " to " << seeds.first + seeds.count - 1
              << ", " << accepted_ << " accepted, " << refused_ << " refused, slowest " << slowest_
              << " s, peak memory " << static_cast<int>(megabytes) << " MB\n";
    // Instrumented code is slower by a constant.
    EXPECT_LT(slowest_, kSanitized ? 5 * kSecondsOfAFile : kSecondsOfAFile)
        << "seed " << slowest_seed_;
    if (!kSanitized) {
      EXPECT_LT(megabytes, kMegabytes);
    }
    // Both happen often enough to mean something.
    EXPECT_GT(refused_, accepted_ / 20);
    EXPECT_GT(accepted_, refused_ / 1000);
  }

 private:
  std::string kind_;
  std::clock_t begin_;
  int accepted_ = 0, refused_ = 0;
  double slowest_ = 0;
  uint64_t slowest_seed_ = 0;
};

std::string MustRead(const std::string& name) {
  auto bytes = ReadFile(PARTITA_TEST_DATA "/" + name, int64_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : "";
}

// Writes the text where a verb would read it; without waiting for the disk.
std::string WriteDamaged(const std::string& text) {
  const std::string path =
      absl::StrCat(testing::TempDir(), "/partita_damaged_", getpid(), ".textproto");
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  EXPECT_TRUE(file.flush()) << path;
  return path;
}

// Whatever is accepted can be summarised, trained and planned, or is refused for that.
class Planning {
 public:
  Planning() : machine_(*FindMachine("p100-4x4", 2)) {
    model_ = MakeDefaultCostModel(std::make_shared<const Machine>(machine_), DeviceProfiles(2));
  }

  void Try(const Graph& model, uint64_t seed) const {
    const absl::Status status = Plan(model);
    EXPECT_FALSE(absl::IsInternal(status) || absl::IsUnknown(status))
        << "seed " << seed << ": " << status;
  }

 private:
  absl::Status Plan(const Graph& model) const {
    const ModelSummary summary = Summarize(model);
    EXPECT_GE(summary.macs_per_sample, 0);
    EXPECT_GE(summary.parameters, 0);
    ASSIGN_OR_RETURN(const Graph graph, BuildTrainingGraph(model, {}));
    const Evaluator evaluator(graph, machine_.topology, *model_);
    ASSIGN_OR_RETURN(const Strategy strategy, DataParallel(graph, machine_.topology));
    ASSIGN_OR_RETURN(const EvaluatedStep step, evaluator.EvaluateStep(strategy));
    EXPECT_GT(step.evaluation.time, Nanos(0));
    for (Bytes peak : step.evaluation.peak) EXPECT_GE(peak, Bytes(0));
    return absl::OkStatus();
  }

  Machine machine_;
  std::unique_ptr<CostModel> model_;
};

void MutateOnnxFiles(Seeds seeds) {
  std::vector<std::string> files;
  for (const char* name :
       {"models/alexnet.onnx", "models/alexnet_torchscript.onnx", "models/mlp.onnx",
        "models/vgg11.onnx", "models/lstm_lm_optimized.onnx", "oracle/mlp/model.onnx",
        "models/resnet50_dynamo.onnx", "models/transformer_encoder_optimized.onnx"}) {
    files.push_back(MustRead(name));
  }
  std::vector<onnx::ModelProto> models(files.size());
  for (size_t i = 0; i < files.size(); ++i) ASSERT_TRUE(models[i].ParseFromString(files[i]));
  const Planning planning;
  Tally tally("ONNX");
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Mutator mutator(seed);
    // The large files are as rare as they are slow.
    const size_t k = (seed / 2) % (seed % 10 == 0 ? files.size() : 6);
    const std::string bytes = seed % 2 == 0
                                  ? mutator.MutateBytes(files[k], files[(k + 1) % files.size()])
                                  : mutator.MutateModel(models[k]);
    tally.Begin();
    const auto model = ImportOnnxBytes(bytes, "damaged.onnx");
    if (model.ok()) planning.Try(model->graph, seed);
    tally.End(seed, model.status());
  }
  tally.Check(seeds);
}

void MutateNativeFiles(Seeds seeds) {
  std::vector<std::string> texts;
  for (const char* name : {"lenet", "mlp_tiny", "resnet_tiny", "alexnet_caffe2012"}) {
    const auto graph = MakeZooModel(name, 8);
    ASSERT_TRUE(graph.ok());
    texts.push_back(*ModelText(*graph));
  }
  const Planning planning;
  Tally tally("native models");
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Mutator mutator(seed + 1'000'000'000);
    const size_t k = seed % texts.size();
    const std::string text = mutator.MutateText(texts[k], texts[(k + 1) % texts.size()]);
    tally.Begin();
    const auto graph = ParseModel(text, "damaged.textproto");
    if (graph.ok()) planning.Try(graph->graph, seed);
    tally.End(seed, graph.status());
  }
  tally.Check(seeds);
}

// Plans under random strategies, with an order and a prediction, as files hold them.
std::vector<std::string> PlanTexts() {
  std::vector<std::string> texts;
  std::mt19937_64 random(20240612);
  for (const char* name : {"mlp_tiny", "lenet", "mlp_tiny", "resnet_tiny", "mlp_tiny", "lenet"}) {
    const auto model = LoadTrainingModel({.model = name, .batch = 4});
    EXPECT_TRUE(model.ok()) << model.status();
    Plan plan;
    plan.model = model->label;
    plan.topology = VirtualCpuDevices(3, Bytes(1 << 30));
    plan.strategy = RandomStrategy(model->graph, 3, random);
    plan.strategy = WithRandomCollectives(model->graph, plan.strategy,
                                          PartitionOptionsOf(plan.topology, {}), random);
    plan.prediction =
        Prediction{Nanos(123456), {Bytes(1), Bytes(2), Bytes(3)}, {Bytes(4), Bytes(5), Bytes(6)}};
    plan.provenance = {.program_version = "0.1.0",
                       .search = "mcmc",
                       .machine = "p100-4x4",
                       .seed = uint64_t{1} << 63,
                       .evaluations = 1000,
                       .options = {"beta=0.5"}};
    const auto step = BuildPlannedStep(model->graph, plan);
    EXPECT_TRUE(step.ok()) << step.status();
    plan.order = PlanOrder{.task_graph_fingerprint = step->tasks.fingerprint()};
    for (TaskId id : step->order) plan.order->tasks.push_back(id.value());
    texts.push_back(PlanText(plan, model->graph));
  }
  return texts;
}

void MutatePlanFiles(Seeds seeds) {
  const std::vector<std::string> texts = PlanTexts();
  Tally tally("plans");
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Mutator mutator(seed + 2'000'000'000);
    const size_t k = seed % texts.size();
    const std::string path =
        WriteDamaged(mutator.MutateText(texts[k], texts[(k + 1) % texts.size()]));
    tally.Begin();
    const auto loaded = LoadPlan({path});
    tally.End(seed, loaded.status());
    if (loaded.ok()) {
      EXPECT_FALSE(PlanText(loaded->plan, loaded->model.graph).empty());
    }
  }
  tally.Check(seeds);
}

void MutateMachineFiles(Seeds seeds) {
  std::vector<std::string> texts;
  for (const char* name : {"p100-4x4", "k80-16x4"})
    texts.push_back(MachineText(*FindMachine(name)));
  Tally tally("machines");
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Mutator mutator(seed + 3'000'000'000);
    const size_t k = seed % texts.size();
    const std::string path = WriteDamaged(mutator.MutateText(texts[k], texts[1 - k]));
    tally.Begin();
    const auto machine = FindMachine(path);
    if (machine.ok()) (void)TakeDevices(*machine, 2);
    tally.End(seed, machine.status());
  }
  tally.Check(seeds);
}

TEST(MutationTest, DamagedOnnxFilesAreReadOrRefused) { MutateOnnxFiles(Slice(12'000)); }
TEST(MutationTest, DamagedNativeModelsAreReadOrRefused) { MutateNativeFiles(Slice(4'000)); }
TEST(MutationTest, DamagedPlansAreReadOrRefused) { MutatePlanFiles(Slice(4'000)); }
TEST(MutationTest, DamagedMachinesAreReadOrRefused) { MutateMachineFiles(Slice(1'000)); }
TEST(MutationTest, LongRunOnDamagedOnnxFiles) { MutateOnnxFiles(Long(120'000)); }
TEST(MutationTest, LongRunOnDamagedNativeModels) { MutateNativeFiles(Long(40'000)); }
TEST(MutationTest, LongRunOnDamagedPlans) { MutatePlanFiles(Long(40'000)); }
TEST(MutationTest, LongRunOnDamagedMachines) { MutateMachineFiles(Long(10'000)); }

}  // namespace
}  // namespace partita

// Training works: the zoo's lenet, trained on MNIST-format files for three epochs, classifies what
// it has not seen as well as PyTorch's does from the same start on the same batches.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "gtest/gtest.h"
#include "planner/evaluator.h"
#include "planner/search/search_algorithm.h"
#include "runtime/backend/backends.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/data/open_data_source.h"
#include "runtime/train/data/synthetic_digits.h"
#include "runtime/train/trainer.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr int64_t kTrainSamples = 6400, kTestSamples = 4000;
constexpr uint64_t kSeed = 1;
// What `torch_lenet.py FOLDER WEIGHTS` prints for the files that this test writes, with PyTorch
// 1.13.1 on a CPU. (Losses part where rounding decides the sign of an activation: about 10 % at the
// last batch, whose loss is small.)
constexpr double kPyTorchAccuracy = 3985.0 / 4000;
constexpr double kPyTorchLastLoss = 0.010609;

std::string Folder() { return ::testing::TempDir() + "/lenet_digits"; }

class LenetAccuracyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::create_directories(Folder());
    ASSERT_TRUE(WriteSyntheticDigitsIdx(Folder(), kTrainSamples, kTestSamples, kSeed).ok());
    const Graph graph = ModelWriter::Get(
        BuildTrainingGraph(ModelWriter::Get(MakeZooModel("lenet", 64)), TrainingOptions{}));
    ASSERT_TRUE(SaveWeights(Folder() + "/start.safetensors", graph,
                            ModelWriter::Get(InitialState(graph, kSeed)))
                    .ok());
  }

  std::shared_ptr<const DataSource> Open(DataSplit split) const {
    return ModelWriter::Get(OpenDataSource({.spec = Folder(), .split = split}));
  }

  // Trains and compares with PyTorch.
  void ExpectAccuracy(const Strategy& strategy, int devices, const char* what) {
    auto backend = MakeBackend("cpu");
    if (!backend.ok()) backend = MakeBackend("reference");
    const ExecutorSetup setup{.devices = VirtualDevices(*backend, devices)};
    const PartitionOptions options{.devices = devices};
    const auto executor = ModelWriter::Get(
        OpenExecutor(graph_, ModelWriter::Get(CanonicalStep(graph_, strategy, options)), setup));
    const auto evaluation =
        ModelWriter::Get(ModelEvaluation::Create(model_, graph_, strategy, options, setup));
    const auto trainer = ModelWriter::Get(Trainer::Create(
        graph_, *executor,
        {ModelWriter::Get(InitialState(graph_, kSeed)),
         {.source = Open(DataSplit::kTrain), .loader = {.workers = 1, .shuffle = false}},
         {.epochs = 3, .arguments = {.learning_rate = 0.01, .momentum = 0.9}},
         {.evaluation = evaluation.get(), .data = {.source = Open(DataSplit::kEval)}}}));
    ASSERT_EQ(trainer->Run(), absl::OkStatus());
    const double accuracy = trainer->evaluation()->accuracy;
    std::printf("%s: last loss %.6f (PyTorch %.6f), accuracy %.4f (PyTorch %.4f); %s\n", what,
                trainer->metrics().losses().back(), kPyTorchLastLoss, accuracy, kPyTorchAccuracy,
                trainer->metrics().ToString().c_str());
    EXPECT_EQ(trainer->evaluation()->samples, kTestSamples);
    EXPECT_NEAR(accuracy, kPyTorchAccuracy, 0.003);
  }

  Graph model_ = ModelWriter::Get(MakeZooModel("lenet", 64));
  Graph graph_ = ModelWriter::Get(BuildTrainingGraph(model_, TrainingOptions{}));
};

TEST_F(LenetAccuracyTest, OneDeviceReachesPyTorchs) {
  ExpectAccuracy(SingleDevice(graph_, DeviceId(0)), 1, "one device");
}

TEST_F(LenetAccuracyTest, ASearchedPlanReachesPyTorchs) {
  constexpr int kDevices = 4;
  const auto machine =
      std::make_shared<const Machine>(ModelWriter::Get(FindMachine("p100-4x4", kDevices)));
  const auto model = MakeDefaultCostModel(machine);
  const Evaluator evaluator(graph_, machine->topology, *model);
  const SearchSpace space(graph_, kDevices);
  std::mt19937_64 random(kSeed);
  const SearchProblem problem{
      .evaluator = evaluator, .space = space, .starts = {{"random", space.RandomStrategy(random)}}};
  const SearchResult found =
      ModelWriter::Get(SearchMcmc(problem, {.evaluations = 200, .seed = kSeed}));
  ExpectAccuracy(found.best, kDevices, "searched plan");
}

TEST_F(LenetAccuracyTest, ARandomPlanReachesPyTorchs) {
  std::mt19937_64 random(kSeed);
  ExpectAccuracy(RandomStrategy(graph_, 2, random), 2, "random plan");
}

}  // namespace
}  // namespace partita

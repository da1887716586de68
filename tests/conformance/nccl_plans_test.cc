// Plans whose messages go through the nccl communicator, as they would on GPUs; the library behind
// it is the test library of NCCL's functions, which moves host memory between threads and checks
// how it is called. No GPU has part in this.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "runtime/backend/backends.h"
#include "runtime/serial/serial_trainer.h"
#include "tests/conformance/executed_run.h"
#include "tests/testing/failing_backend.h"
#include "tests/testing/far_memory_backend.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"
#include "tests/testing/ring_equality.h"

namespace partita {
namespace {

ExecutorSetup NcclSetupOf(std::vector<PlacedDevice> devices) {
  return {.devices = std::move(devices),
          .communicator = "nccl",
          .hang_seconds = 600,
          .nccl_library = PARTITA_NCCL_ON_HOST};
}

// GPUs of one process, or stand-ins of them: what each does is recorded by itself.
std::vector<PlacedDevice> SeparateDevices(const std::shared_ptr<const Backend>& backend,
                                          int devices) {
  std::vector<PlacedDevice> placed;
  for (int d = 0; d < devices; ++d) placed.push_back({backend, {.index = d}});
  return placed;
}

// What plans contained, by kind of communication.
class Coverage {
 public:
  void Add(const Program& program) {
    ++plans_;
    for (const Task& task : program.tasks.tasks()) {
      if (!IsCommunication(task)) continue;
      const auto* collective = std::get_if<CollectiveTask>(&task.body);
      if (collective == nullptr) {
        ++counts_["transfers"];
        continue;
      }
      ++counts_[Name(collective->collective.kind)];
      if (!collective->bucket.empty()) ++counts_["buckets"];
      const auto& blocks = collective->collective.blocks;
      for (const ElementRange& block : blocks) {
        if (block.count == blocks[0].count) continue;
        ++counts_["uneven blocks"];
        break;
      }
    }
  }
  void AddReplayed(int64_t steps) { counts_["replayed steps"] += static_cast<int>(steps); }
  int plans() const { return plans_; }
  int Count(const std::string& what) const {
    const auto it = counts_.find(what);
    return it == counts_.end() ? 0 : it->second;
  }
  void Print() const {
    std::cout << plans_ << " plans;";
    for (const auto& [what, count] : counts_) std::cout << " " << what << " " << count;
    std::cout << "\n";
  }

 private:
  int plans_ = 0;
  std::map<std::string, int> counts_;
};

// Random plans on these devices, compared with the serial model in the ring.
void RunRandomPlans(const std::vector<PlacedDevice>& placed, uint64_t graphs, int plans,
                    Coverage& coverage) {
  const int kSteps = placed[0].backend->NewRecording({}) == nullptr ? 2 : 4;
  const int devices = static_cast<int>(placed.size());
  PlannerOrders orders;
  for (uint64_t seed = 0; seed < graphs; ++seed) {
    std::mt19937_64 random(9'000'000 + 1000 * static_cast<uint64_t>(devices) + seed);
    const Graph graph = WithRingArithmetic(RandomTrainingGraph(random));
    const SerialRun serial(graph, kSteps, RingValues::kRandom, random);
    for (int plan = 0; plan < plans; ++plan) {
      SCOPED_TRACE(absl::StrCat(devices, " devices, seed ", seed, ", plan ", plan));
      PartitionOptions options = RandomPartitionOptions(random);
      options.devices = devices;
      options.node_of_device.clear();
      const Strategy strategy = RandomStrategy(graph, devices, random);
      EvaluatedStep step = ModelWriter::Get(orders.StepOf(graph, strategy, options, random));
      const std::vector<Bytes> wanted = BytesReceived(step.tasks);
      const auto run = ExecutedRun::Open(graph, {std::move(step.tasks), std::move(step.order)},
                                         NcclSetupOf(placed));
      ASSERT_TRUE(run.ok()) << run.status();
      coverage.Add((*run)->program());
      ASSERT_EQ(serial.Compare(**run), absl::OkStatus());
      coverage.AddReplayed((*run)->replayed_steps());
      for (size_t d = 0; d < wanted.size(); ++d) {
        EXPECT_EQ((*run)->BytesReceived()[d].value(), kSteps * wanted[d].value()) << d;
      }
    }
  }
}

TEST(NcclPlansTest, RandomPlansEqualTheSerialModelInTheRing) {
  Coverage coverage;
  const auto backend = ModelWriter::Get(MakeBackend("reference"));
  for (int devices : {2, 3, 4, 8}) {
    RunRandomPlans(VirtualDevices(backend, devices), 26, 2, coverage);
  }
  coverage.Print();
  EXPECT_GE(coverage.plans(), 200);
  for (const char* what : {"transfers", "all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                           "uneven blocks", "buckets"}) {
    EXPECT_GE(coverage.Count(what), 10) << what;
  }
}

// Of two steps of a batch's address the first is enqueued, the second recorded and run.
TEST(NcclPlansTest, RecordedStepsOfRandomPlansEqualTheSerialModelInTheRing) {
  Coverage coverage;
  const auto backend = RecordingBackend(ModelWriter::Get(MakeBackend("reference")));
  for (int devices : {2, 3, 5}) {
    RunRandomPlans(SeparateDevices(backend, devices), 20, 2, coverage);
  }
  coverage.Print();
  EXPECT_GE(coverage.Count("replayed steps"), 2 * coverage.plans());
}

TEST(NcclPlansTest, LongRunOfManyMoreRandomPlans) {
  Coverage coverage;
  const auto backend = ModelWriter::Get(MakeBackend("reference"));
  for (int devices : {2, 3, 4, 5, 6, 7, 8}) {
    RunRandomPlans(VirtualDevices(backend, devices), 300, 3, coverage);
    RunRandomPlans(SeparateDevices(RecordingBackend(backend), devices), 30, 3, coverage);
  }
  coverage.Print();
}

// The backend that trains: the machine's cores through oneDNN where it is built in.
std::shared_ptr<const Backend> TrainingBackend() {
  auto cpu = MakeBackend("cpu");
  return cpu.ok() ? *std::move(cpu) : ModelWriter::Get(MakeBackend("reference"));
}

// An executor of an expert's strategy, in the order that the planner gives it.
std::unique_ptr<Executor> OpenExpert(const Graph& graph, const std::string& expert, int devices,
                                     std::shared_ptr<const Backend> backend) {
  auto machine =
      std::make_shared<const Machine>(ModelWriter::Get(FindMachine("p100-4x4", devices)));
  const auto model = MakeDefaultCostModel(machine);
  const Strategy strategy =
      ModelWriter::Get(ModelWriter::Get(ExpertNamed(expert))(graph, machine->topology));
  EvaluatedStep step =
      ModelWriter::Get(Evaluator(graph, machine->topology, *model).EvaluateStep(strategy));
  return ModelWriter::Get(OpenExecutor(graph, {std::move(step.tasks), std::move(step.order)},
                                       NcclSetupOf(VirtualDevices(std::move(backend), devices))));
}

// Trains a model of the zoo for some steps by an expert's strategy and compares losses and weights
// with the serial model, within what sums in another order differ.
class ExpertTraining {
 public:
  ExpertTraining(const std::string& model, int64_t batch, int64_t classes, int steps)
      : graph_(ModelWriter::Get(
            BuildTrainingGraph(ModelWriter::Get(MakeZooModel(model, batch)), TrainingOptions{}))),
        input_(RandomNumbers(Volume(graph_.WholeType(TensorRole::kSamples).shape), 5)),
        labels_(RandomLabels(batch, static_cast<int32_t>(classes))),
        start_(graph_, 3),
        end_(start_) {
    for (int step = 0; step < steps; ++step) {
      losses_.push_back(ModelWriter::Get(end_.Step(input_, labels_, Arguments(step))));
    }
  }

  void Expect(const std::string& expert, int devices) {
    SCOPED_TRACE(absl::StrCat(expert, " on ", devices, " devices"));
    const auto backend = TrainingBackend();
    const auto executor = OpenExpert(graph_, expert, devices, backend);
    const std::vector<Bytes> wanted = BytesReceived(executor->program().tasks);
    for (const Tensor& tensor : graph_.tensors()) {
      if (tensor.kind != TensorKind::kWeight && tensor.kind != TensorKind::kState) continue;
      ASSERT_EQ(
          executor->WriteTensor(tensor.id, {tensor.type.dtype, start_.value(tensor.id).bytes}),
          absl::OkStatus());
    }
    for (size_t s = 0; s < losses_.size(); ++s) {
      const auto result = executor->Step(HostTensorOf(input_), HostTensorOf(labels_),
                                         Arguments(static_cast<int>(s)));
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_NEAR(result->outputs[0], losses_[s], 1e-4 * std::abs(losses_[s])) << "step " << s;
    }
    EXPECT_EQ(executor->CheckCopies(), absl::OkStatus());
    ExpectWeights(*executor);
    int64_t received = 0;
    for (size_t d = 0; d < wanted.size(); ++d) {
      received += wanted[d].value();
      EXPECT_EQ(executor->BytesReceived()[d].value(),
                static_cast<int64_t>(losses_.size()) * wanted[d].value());
    }
    EXPECT_GT(received, 0);
  }

 private:
  static StepArguments Arguments(int step) {
    StepArguments arguments;
    arguments.step = step;
    arguments.seed = 21;
    return arguments;
  }

  void ExpectWeights(Executor& executor) {
    for (const Weight& weight : graph_.weights()) {
      const Tensor& tensor = graph_.tensor(weight.tensor);
      DenseTensor value(tensor.type);
      ASSERT_EQ(executor.ReadTensor(tensor.id, value.bytes), absl::OkStatus());
      const auto got = value.as<float>();
      const auto want = end_.value(tensor.id).as<float>();
      double largest = 0, error = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(want[i])));
        error = std::max(error, std::abs(static_cast<double>(want[i]) - got[i]));
      }
      EXPECT_LE(error, 1e-3 * largest) << tensor.name;
    }
  }

  const Graph graph_;
  const std::vector<float> input_;
  const std::vector<int32_t> labels_;
  SerialTrainer start_, end_;
  std::vector<double> losses_;
};

// One device fails while the others wait for it in NCCL calls.
TEST(NcclPlansTest, AFailureOfOneDeviceEndsTheStepOnAll) {
  const Graph graph = ModelWriter::Get(
      BuildTrainingGraph(ModelWriter::Get(MakeZooModel("mlp_tiny", 8)), TrainingOptions{}));
  const auto executor = OpenExpert(graph, "data_parallel", 4, FailingBackend(3));
  const std::vector<float> input =
      RandomNumbers(Volume(graph.WholeType(TensorRole::kSamples).shape), 5);
  const std::vector<int32_t> labels = RandomLabels(8, 2);
  const auto result = executor->Step(HostTensorOf(input), HostTensorOf(labels), {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange) << result.status();
}

TEST(NcclPlansTest, AlexNetSTrainsAsTheSerialModelDoes) {
  ExpertTraining training("alexnet_s56", 8, 200, 2);
  for (int devices : {2, 4, 8}) training.Expect("data_parallel", devices);
  training.Expect("one_weird_trick", 4);
}

TEST(NcclPlansTest, LongRunOfAlexNet) {
  ExpertTraining training("alexnet", 8, 1000, 3);
  for (int devices : {2, 4, 8}) {
    training.Expect("data_parallel", devices);
    training.Expect("one_weird_trick", devices);
  }
}

}  // namespace
}  // namespace partita

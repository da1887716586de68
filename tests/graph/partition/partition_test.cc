#include "graph/partition/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_order.h"
#include "graph/training/training_graph.h"
#include "graph/verify/step_verifier.h"
#include "runtime/serial/serial_trainer.h"
#include "tests/testing/faults.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/task_interpreter.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

// x[8,6] -> fc1[10] -> relu -> fc2[4] -> cross-entropy, by momentum.
Graph Perceptron() {
  ModelWriter m("mlp", DType::kFloat32);
  const TensorId y = m.Relu("relu", m.Linear("fc1", m.Input({8, 6}), 10));
  return ModelWriter::Get(BuildTrainingGraph(m.Finish(m.Linear("fc2", y, 4)), {}));
}

// Every operator by sample, where its loop "n" is one.
Strategy DataParallel(const Graph& graph, int devices) {
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    ParallelConfig& config = strategy.configs[id.index()];
    config.degrees[static_cast<size_t>(graph.rule(id).FindLoop("n"))] = devices;
    config.devices.clear();
    for (int d = 0; d < devices; ++d) config.devices.push_back(DeviceId(d));
  }
  return strategy;
}

TaskGraph Tasks(const Graph& graph, const Strategy& strategy, const PartitionOptions& options) {
  return ModelWriter::Get(Partition(graph, strategy, options));
}

int64_t ReceivedBy(const Task& task, int devices) {
  int64_t elements = 0;
  for (int d = 0; d < devices; ++d) {
    if (const auto* body = std::get_if<CollectiveTask>(&task.body)) {
      elements += ElementsReceived(*body, DeviceId(d));
    } else if (const auto* body = std::get_if<TransferTask>(&task.body)) {
      elements += ElementsReceived(*body, DeviceId(d));
    }
  }
  return elements;
}

TEST(PartitionTest, EndsOnceItIsToStop) {
  const Graph graph = Perceptron();
  std::atomic<bool> stop = false;
  const PartitionOptions options{.devices = 4, .stop = &stop};
  EXPECT_EQ(Partition(graph, DataParallel(graph, 4), options).status(), absl::OkStatus());
  stop = true;
  const auto tasks = Partition(graph, DataParallel(graph, 4), options);
  EXPECT_TRUE(absl::IsCancelled(tasks.status())) << tasks.status();
}

TEST(PartitionTest, OneDeviceHasNothingToExchangeAndNothingToMove) {
  const Graph graph = Perceptron();
  const TaskGraph tasks = Tasks(graph, SingleDevice(graph, DeviceId(0)), {});
  for (const Task& task : tasks.tasks()) {
    EXPECT_FALSE(IsCommunication(task));
    EXPECT_FALSE(std::holds_alternative<MoveTask>(task.body));
  }
  EXPECT_EQ(BytesReceived(tasks)[0].value(), 0);
}

TEST(PartitionTest, DataParallelGradientsReceiveTwicePMinusOneTimesTheParameters) {
  const Graph graph = Perceptron();
  for (int devices : {2, 4, 8}) {
    const TaskGraph tasks = Tasks(graph, DataParallel(graph, devices),
                                  {.devices = devices, .algorithm = AlwaysBy("ring")});
    std::map<std::string, int64_t> received;
    for (const Task& task : tasks.tasks()) {
      if (!IsCommunication(task)) continue;
      const std::string& tensor = graph.tensors()[static_cast<size_t>(task.key.subject)].name;
      received[tensor] += ReceivedBy(task, devices);
    }
    int64_t gradients = 0;
    for (const Weight& weight : graph.weights()) {
      const Tensor& tensor = graph.tensor(weight.tensor);
      EXPECT_EQ(received["d:" + tensor.name], 2 * (devices - 1) * Volume(tensor.type.shape))
          << tensor.name;
      gradients += received["d:" + tensor.name];
    }
    int64_t everything = 0;
    for (Bytes bytes : BytesReceived(tasks)) everything += bytes.value();
    // The loss and the number of correct rows come from every device but one.
    EXPECT_EQ(everything, 4 * (gradients + 2 * (devices - 1)));
  }
}

TEST(PartitionTest, NodesReachTheAlgorithmThatGoesByThem) {
  const Graph graph = Perceptron();
  for (const auto& [nodes, wanted] :
       std::map<std::vector<int32_t>, std::string>{{{}, "hierarchical"},
                                                   {{0, 0, 0, 0}, "hierarchical"},
                                                   {{5, 5, 6, 6}, "hierarchical(nodes=0*2+1*2)"}}) {
    const TaskGraph tasks =
        Tasks(graph, DataParallel(graph, 4),
              {.devices = 4, .node_of_device = nodes, .algorithm = AlwaysBy("hierarchical")});
    int collectives = 0;
    for (const Task& task : tasks.tasks()) {
      const auto* body = std::get_if<CollectiveTask>(&task.body);
      if (body == nullptr || body->collective.kind != CollectiveKind::kAllReduce) continue;
      EXPECT_EQ(body->algorithm, wanted);
      ++collectives;
    }
    EXPECT_GE(collectives, 2);
  }
}

TEST(PartitionTest, ShardedUpdatesScatterGradientsAndGatherWeights) {
  const Graph graph = Perceptron();
  Strategy strategy = DataParallel(graph, 4);
  std::vector<PlacedBox> shards;
  for (int d = 0; d < 4; ++d) shards.push_back({{BlockOf(10, 4, d), {0, 6}}, DeviceId(d)});
  ASSERT_EQ(graph.tensor(graph.weights()[0].tensor).name, "fc1.weight");
  strategy.weights[0].update = shards;
  const TaskGraph tasks = Tasks(graph, strategy, {.devices = 4, .algorithm = AlwaysBy("ring")});
  std::map<std::string, std::vector<std::string>> kinds;
  int64_t state_elements = 0;
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<CollectiveTask>(&task.body);
    if (body == nullptr) continue;
    kinds[graph.tensors()[static_cast<size_t>(task.key.subject)].name].push_back(
        Name(body->collective.kind));
  }
  for (const Buffer& buffer : tasks.buffers()) {
    if (buffer.kind == BufferKind::kState && buffer.box.rank() == 2 && buffer.box[1].hi == 6) {
      state_elements += buffer.elements();
    }
  }
  EXPECT_THAT(kinds["d:fc1.weight"], ::testing::ElementsAre("reduce_scatter"));
  EXPECT_THAT(kinds["fc1.weight.next"], ::testing::ElementsAre("all_gather"));
  EXPECT_EQ(state_elements, 60);
}

TEST(PartitionTest, AReluIsTakenIntoTheKernelBeforeIt) {
  const Graph graph = Perceptron();
  for (bool fuse : {false, true}) {
    const TaskGraph tasks = Tasks(graph, DataParallel(graph, 2), {.devices = 2, .fuse = fuse});
    int fused = 0, separate = 0;
    for (const Task& task : tasks.tasks()) {
      const auto* body = std::get_if<ComputeTask>(&task.body);
      if (body == nullptr) continue;
      const KernelSignature& s = tasks.signatures()[static_cast<size_t>(body->signature)];
      fused += HasOnlyEpilogue(s);
      separate += std::holds_alternative<Relu>(s.attrs) && s.pass.is_forward();
    }
    EXPECT_EQ(fused, fuse ? 2 : 0);
    EXPECT_EQ(separate, fuse ? 0 : 2);
  }
}

TEST(PartitionTest, APendingSumIsNotFusedWithItsRelu) {
  const Graph graph = Perceptron();
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    if (graph.op(id).name != "fc1") continue;
    ParallelConfig& config = strategy.configs[id.index()];
    config.degrees[static_cast<size_t>(graph.rule(id).FindLoop("i"))] = 2;
    config.devices = {DeviceId(0), DeviceId(1)};
  }
  const TaskGraph tasks = Tasks(graph, strategy, {.devices = 2});
  for (const KernelSignature& signature : tasks.signatures()) {
    EXPECT_FALSE(HasOnlyEpilogue(signature));
  }
}

int FusedUpdates(const TaskGraph& tasks) {
  int count = 0;
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<ComputeTask>(&task.body);
    if (body == nullptr) continue;
    const KernelSignature& s = tasks.signatures()[static_cast<size_t>(body->signature)];
    count += EndsInUpdate(s);
  }
  return count;
}

TEST(PartitionTest, AWeightsUpdateTakesItsGradientWhereNobodyElseDoes) {
  const Graph graph = Perceptron();
  const Strategy serial = SingleDevice(graph, DeviceId(0));
  EXPECT_EQ(FusedUpdates(Tasks(graph, serial, {.devices = 1})), 2);
  EXPECT_EQ(FusedUpdates(Tasks(graph, serial, {.devices = 1, .fuse = false})), 0);
  // The gradients are summed over the devices first.
  EXPECT_EQ(FusedUpdates(Tasks(graph, DataParallel(graph, 2), {.devices = 2})), 0);
  // Each device has its own rows of the weights.
  Strategy split = serial;
  for (OpId id : graph.anchors()) {
    const int loop = graph.rule(id).FindLoop("o");
    if (!std::holds_alternative<MatMul>(graph.op(id).attrs) || loop < 0) continue;
    ParallelConfig& config = split.configs[id.index()];
    config.degrees[static_cast<size_t>(loop)] = 2;
    config.devices = {DeviceId(0), DeviceId(1)};
  }
  EXPECT_EQ(FusedUpdates(Tasks(graph, split, {.devices = 2})), 4);
}

// x[4,6,5,3] -> bn1 -> relu1 -> conv -> bn2 -> 1,000 classes or so, by momentum.
Graph Normalised() {
  ModelWriter m("norm", DType::kFloat32);
  TensorId y = m.Relu("relu1", m.BatchNorm("bn1", m.Input({4, 6, 5, 3})));
  y = m.BatchNorm("bn2", m.Conv("conv", y, 8));
  y = ModelWriter::Get(
      m.builder.Add({.name = "flat", .attrs = Reshape{.shape = {4, -1}}, .inputs = {y}}));
  return ModelWriter::Get(BuildTrainingGraph(m.Finish(m.Linear("fc", y, 10)), {}));
}

// Kernels by the names of their operators, in order.
std::map<std::string, int> FusedKernels(const TaskGraph& tasks) {
  std::map<std::string, int> counts;
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<ComputeTask>(&task.body);
    if (body == nullptr) continue;
    std::string names;
    for (const KernelStage& stage :
         StagesOf(tasks.signatures()[static_cast<size_t>(body->signature)])) {
      absl::StrAppend(&names, names.empty() ? "" : " ", NameOf(stage.kernel.attrs));
    }
    ++counts[names];
  }
  return counts;
}

TEST(PartitionTest, ADecomposedLayerIsOneKernelWhereNothingIsExchangedInside) {
  const Graph graph = Normalised();
  const auto serial = FusedKernels(Tasks(graph, SingleDevice(graph, DeviceId(0)), {}));
  EXPECT_EQ(serial.at("batch_moments batch_normalize relu"), 1);
  EXPECT_EQ(serial.at("batch_moments batch_normalize"), 1);
  EXPECT_EQ(serial.at("batch_norm_grad_moments batch_norm_grad_apply"), 1);
  EXPECT_EQ(serial.at("batch_norm_grad_moments"), 1);  // x has no gradient
  EXPECT_EQ(serial.at("row_max sum_exp cross_entropy"), 1);
  EXPECT_FALSE(serial.contains("batch_moments"));
  EXPECT_FALSE(serial.contains("row_max"));
  const auto apart =
      FusedKernels(Tasks(graph, SingleDevice(graph, DeviceId(0)), {.devices = 1, .fuse = false}));
  EXPECT_EQ(apart.at("batch_moments"), 2);
  EXPECT_EQ(apart.at("sum_exp"), 1);
}

TEST(PartitionTest, ADecomposedLayerStaysApartWhereItsSumsAreExchanged) {
  const Graph graph = Normalised();
  // Samples are split: sums over samples are pending, those over a row are not.
  const auto samples = FusedKernels(Tasks(graph, DataParallel(graph, 2), {.devices = 2}));
  EXPECT_EQ(samples.at("batch_moments"), 4);
  EXPECT_EQ(samples.at("batch_normalize relu"), 2);
  EXPECT_EQ(samples.at("row_max sum_exp cross_entropy"), 2);
  // Channels are split: each device has its own.
  Strategy channels = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    if (graph.op(id).name != "bn2") continue;
    ParallelConfig& config = channels.configs[id.index()];
    config.degrees[static_cast<size_t>(graph.rule(id).FindLoop("c"))] = 2;
    config.devices = {DeviceId(0), DeviceId(1)};
  }
  const TaskGraph tasks = Tasks(graph, channels, {.devices = 2});
  EXPECT_EQ(FusedKernels(tasks).at("batch_moments batch_normalize"), 2);
  EXPECT_EQ(VerifyStep({graph, channels, tasks, CanonicalOrder(tasks)}), absl::OkStatus());
}

TEST(PartitionTest, AGradientThatTheHostReadsIsStored) {
  const Graph graph = Perceptron();
  PartitionOptions options{.devices = 1};
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.name == "d:fc1.weight") options.extra_outputs.push_back(tensor.id);
  }
  ASSERT_EQ(options.extra_outputs.size(), 1u);
  EXPECT_EQ(FusedUpdates(Tasks(graph, SingleDevice(graph, DeviceId(0)), options)), 1);
}

TEST(PartitionTest, AGradientIsExchangedBeforeEarlierLayersGoBackward) {
  const Graph graph = Perceptron();
  const TaskGraph tasks = Tasks(graph, DataParallel(graph, 4), {.devices = 4});
  int exchanged = -1, backward = -1;
  for (const Task& task : tasks.tasks()) {
    const auto subject = static_cast<size_t>(task.key.subject);
    if (IsCommunication(task) && graph.tensors()[subject].name == "d:fc2.weight") {
      exchanged = task.id.value();
    }
    if (!task.key.of_tensor && graph.ops()[subject].name == "fc1.d1") backward = task.id.value();
  }
  ASSERT_GE(exchanged, 0);
  ASSERT_GE(backward, 0);
  EXPECT_LT(exchanged, backward);
}

TEST(PartitionTest, DependenciesPointBackAndKeysTellTasksApart) {
  const Graph graph = Perceptron();
  const TaskGraph tasks = Tasks(graph, DataParallel(graph, 8), {.devices = 8});
  std::map<TaskKey, int> keys;
  for (const Task& task : tasks.tasks()) {
    EXPECT_EQ(++keys[task.key], 1);
    EXPECT_TRUE(std::is_sorted(task.dependencies.begin(), task.dependencies.end()));
    for (TaskId id : task.dependencies) EXPECT_LT(id, task.id);
  }
}

TEST(PartitionTest, EqualArgumentsGiveEqualTaskGraphs) {
  const Graph graph = Perceptron();
  const PartitionOptions options{.devices = 4};
  const uint64_t once = Tasks(graph, DataParallel(graph, 4), options).fingerprint();
  EXPECT_EQ(once, Tasks(graph, DataParallel(graph, 4), options).fingerprint());
  EXPECT_NE(once, Tasks(graph, DataParallel(graph, 2), options).fingerprint());
}

// Of a mixed machine: two devices with tf32, two without.
TEST(PartitionTest, PrecisionIsInSignaturesAndNowhereElse) {
  const Graph graph = Perceptron();
  const Strategy strategy = DataParallel(graph, 4);
  PartitionOptions options{.devices = 4};
  const TaskGraph plain = Tasks(graph, strategy, options);
  options.precision_of_device = {Precision::kTf32, Precision::kTf32, Precision::kFloat32,
                                 Precision::kFloat32};
  const TaskGraph mixed = Tasks(graph, strategy, options);
  EXPECT_EQ(mixed.fingerprint(), plain.fingerprint());
  EXPECT_GT(mixed.signatures().size(), plain.signatures().size());
  int with_products = 0;
  for (const Task& task : mixed.tasks()) {
    const auto* body = std::get_if<ComputeTask>(&task.body);
    if (body == nullptr) continue;
    const auto& signature = mixed.signatures()[static_cast<size_t>(body->signature)];
    const bool has_products = WorkOf(signature).multiply_adds > 0;
    with_products += has_products ? 1 : 0;
    EXPECT_EQ(signature.compute_type,
              has_products && body->device.value() < 2 ? Precision::kTf32 : Precision::kFloat32)
        << ToString(signature);
    for (const KernelStage& stage : StagesOf(signature)) {
      const bool own = WorkOf(stage.kernel).multiply_adds > 0;
      EXPECT_EQ(stage.kernel.compute_type, own ? signature.compute_type : Precision::kFloat32);
    }
  }
  EXPECT_EQ(with_products, 4 * 5);  // two layers; the first has no gradient of its input
}

// Kernels of one task graph that have products, and those of them that are not deterministic.
std::pair<int, int> CountProducts(const TaskGraph& tasks) {
  std::pair<int, int> counts;
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<ComputeTask>(&task.body);
    if (body == nullptr) continue;
    const auto& signature = tasks.signatures()[static_cast<size_t>(body->signature)];
    const bool has_products = WorkOf(signature).multiply_adds > 0;
    counts.first += has_products ? 1 : 0;
    counts.second += signature.deterministic ? 0 : 1;
    EXPECT_TRUE(has_products || signature.deterministic) << ToString(signature);
    for (const KernelStage& stage : StagesOf(signature)) {
      const bool own = WorkOf(stage.kernel).multiply_adds > 0;
      EXPECT_EQ(stage.kernel.deterministic, signature.deterministic || !own);
    }
  }
  return counts;
}

// Of devices of which two may compute so; of parts that one device computes, and of copies.
TEST(PartitionTest, NondeterminismIsInSignaturesOfPartsThatAreNoCopies) {
  const Graph graph = Perceptron();
  Strategy strategy = DataParallel(graph, 4);
  PartitionOptions options{.devices = 4};
  const TaskGraph plain = Tasks(graph, strategy, options);
  EXPECT_EQ(CountProducts(plain), (std::pair{4 * 5, 0}));
  options.nondeterministic_of_device = {true, true, false, false};
  const TaskGraph mixed = Tasks(graph, strategy, options);
  EXPECT_EQ(CountProducts(mixed), (std::pair{4 * 5, 2 * 5}));
  EXPECT_EQ(mixed.fingerprint(), plain.fingerprint());
  for (OpId anchor : graph.anchors()) {
    ParallelConfig& config = strategy.configs[anchor.index()];
    config.replicas = 4;
    std::fill(config.degrees.begin(), config.degrees.end(), 1);
  }
  EXPECT_EQ(CountProducts(Tasks(graph, strategy, options)), (std::pair{4 * 5, 0}));
}

TEST(PartitionTest, WhatAnOperatorReadsAndWritesInAnotherTypeIsConverted) {
  const Graph graph = Perceptron();
  const Strategy strategy = DataParallel(graph, 2);
  PartitionOptions options{.devices = 2};
  options.element_types.assign(graph.ops().size(), DType::kFloat32);
  const uint64_t plain = Tasks(graph, strategy, {.devices = 2}).fingerprint();
  EXPECT_EQ(Tasks(graph, strategy, options).fingerprint(), plain);
  for (const Operator& op : graph.ops()) {
    if (op.name == "fc1") options.element_types[op.id.index()] = DType::kFloat64;
  }
  const TaskGraph tasks = Tasks(graph, strategy, options);
  std::map<std::string, int> conversions;
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<MoveTask>(&task.body);
    if (body == nullptr || body->from == body->dtype) continue;
    EXPECT_EQ(task.key.phase, TaskKey::Phase::kConvert);
    ++conversions[TaskName(graph, task)];
  }
  EXPECT_THAT(conversions, ::testing::ElementsAre(
                               std::pair("convert fc1", 2), std::pair("convert fc1.bias", 2),
                               std::pair("convert fc1.weight", 2), std::pair("convert x", 2)));
  const auto verify = [&](const TaskGraph& step) {
    return VerifyStep({graph, strategy, step, CanonicalOrder(step)});
  };
  EXPECT_TRUE(verify(tasks).ok()) << verify(tasks);
  for (size_t k = 0; k < tasks.tasks().size(); ++k) {
    if (tasks.tasks()[k].key.phase != TaskKey::Phase::kConvert) continue;
    SCOPED_TRACE(TaskName(graph, tasks.tasks()[k]));
    EditableTasks dropped(tasks), mistaken(tasks), copied(tasks);
    dropped.tasks.erase(dropped.tasks.begin() + static_cast<std::ptrdiff_t>(k));
    EXPECT_FALSE(verify(dropped.Build()).ok());
    auto& body = std::get<MoveTask>(mistaken.tasks[k].body);
    std::swap(body.dtype, body.from);
    EXPECT_THAT(std::string(verify(mistaken.Build()).message()), HasSubstr("another type"));
    std::get<MoveTask>(copied.tasks[k].body).moves[0].kind = MoveSignature::Kind::kCopy;
    EXPECT_THAT(std::string(verify(copied.Build()).message()), HasSubstr("being a conversion"));
  }
}

TEST(PartitionTest, AStrategyForAnotherGraphIsRefused) {
  const Graph graph = Perceptron();
  Strategy strategy = DataParallel(graph, 4);
  EXPECT_THAT(std::string(Partition(graph, strategy, {.devices = 2}).status().message()),
              HasSubstr("device 2"));
  strategy.configs.pop_back();
  EXPECT_THAT(std::string(Partition(graph, strategy, {.devices = 4}).status().message()),
              HasSubstr("configurations"));
}

TEST(PartitionTest, TheHostGetsWeightsAndStatesAsTheyWereBeforeTheUpdate) {
  const Graph graph = Perceptron();
  for (int devices : {1, 2}) {
    PartitionOptions options{.devices = devices};
    for (const Tensor& tensor : graph.tensors()) {
      if (tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kState) {
        options.extra_outputs.push_back(tensor.id);
      }
    }
    const Strategy strategy =
        devices == 1 ? SingleDevice(graph, DeviceId(0)) : DataParallel(graph, devices);
    const TaskGraph tasks = Tasks(graph, strategy, options);
    EXPECT_EQ(VerifyStep({graph, strategy, tasks, CanonicalOrder(tasks)}), absl::OkStatus());
    SerialTrainer serial(graph, 1);
    const auto x = RandomNumbers(8 * 6, 1);
    const auto labels = RandomLabels(8, 4);
    ASSERT_TRUE(serial.Step(x, labels, {}).ok());
    TaskInterpreter run(&graph, tasks);
    for (const Tensor& tensor : graph.tensors()) {
      if (tensor.kind == TensorKind::kInput || tensor.kind == TensorKind::kLabels ||
          tensor.kind == TensorKind::kSeed) {
        run.SetInput(tensor.id, serial.value(tensor.id));
      }
    }
    for (TensorId id : options.extra_outputs) run.SetPersistent(id, serial.value(id));
    ASSERT_EQ(run.RunStep({}), absl::OkStatus());
    for (TensorId id : options.extra_outputs) {
      EXPECT_EQ(ModelWriter::Get(run.Output(id)), serial.value(id)) << graph.tensor(id).name;
      EXPECT_NE(ModelWriter::Get(run.Persistent(id)), serial.value(id)) << graph.tensor(id).name;
    }
  }
}

}  // namespace
}  // namespace partita

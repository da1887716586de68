#include "runtime/executor/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "graph/partition/partition.h"
#include "graph/partition/planned_step.h"
#include "graph/task/task_order.h"
#include "graph/training/training_graph.h"
#include "graph/verify/task_checks.h"
#include "planner/expert/expert_strategies.h"
#include "runtime/backend/backends.h"
#include "runtime/comm/communicators.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/serial/serial_trainer.h"
#include "tests/testing/failing_backend.h"
#include "tests/testing/far_memory_backend.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

Graph ConvModel() {
  ModelWriter m("conv", DType::kFloat32);
  TensorId x = m.Relu("relu1", m.Conv("conv1", m.Input({6, 3, 7, 5}), 8));
  x = m.Relu("relu2", m.BatchNorm("bn", m.Conv("conv2", x, 8)));
  x = ModelWriter::Get(
      m.builder.Add({.name = "mean",
                     .attrs = ReduceMean{.axes = {2, 3}, .keepdims = false, .count = 35},
                     .inputs = {x}}));
  return m.Finish(m.Linear("fc", x, 5));
}

// Splits every operator `degree` ways along its first loop that has the extent.
Strategy SplitFirstLoop(const Graph& graph, int devices) {
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    ParallelConfig& config = strategy.configs[id.index()];
    for (size_t l = 0; l < config.degrees.size(); ++l) {
      if (graph.rule(id).loops[l].extent < devices) continue;
      config.degrees[l] = devices;
      config.devices.clear();
      for (int d = 0; d < devices; ++d) config.devices.push_back(DeviceId(d));
      break;
    }
  }
  return strategy;
}

std::unique_ptr<Executor> MakeExecutor(const Graph& graph, const Strategy& strategy, int devices,
                                       ExecutorOptions options = {},
                                       const std::string& backend = "reference") {
  TaskGraph tasks = ModelWriter::Get(
      Partition(graph, strategy, {.devices = devices, .native_formats = backend == "cpu"}));
  std::vector<TaskId> order = CanonicalOrder(tasks);
  options.devices.assign(static_cast<size_t>(devices),
                         {ModelWriter::Get(MakeBackend(backend)), {}});
  return ModelWriter::Get(Executor::Create(
      std::move(tasks), std::move(order), graph,
      ModelWriter::Get(MakeCommunicator("inproc", {.devices = devices})), options));
}

void CopyPersistent(const Graph& graph, const SerialTrainer& from, Executor& to) {
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::kWeight && tensor.kind != TensorKind::kState) continue;
    ASSERT_TRUE(to.WriteTensor(tensor.id, {tensor.type.dtype, from.value(tensor.id).bytes}).ok());
  }
}

void ExpectSamePersistent(const Graph& graph, const SerialTrainer& want, Executor& got) {
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::kWeight && tensor.kind != TensorKind::kState) continue;
    DenseTensor value(tensor.type);
    ASSERT_TRUE(got.ReadTensor(tensor.id, value.bytes).ok());
    EXPECT_EQ(value.bytes, want.value(tensor.id).bytes) << tensor.name;
  }
  EXPECT_EQ(got.CheckCopies(), absl::OkStatus());
}

class ExecutorTest : public testing::TestWithParam<int> {};

TEST_P(ExecutorTest, EqualsTheSerialRunInTheRing) {
  const int devices = GetParam();
  const Graph graph =
      WithRingArithmetic(ModelWriter::Get(BuildTrainingGraph(ConvModel(), TrainingOptions{})));
  SerialTrainer serial(graph);
  serial.RandomizeRing(5);
  const auto executor = MakeExecutor(graph, SplitFirstLoop(graph, devices), devices);
  CopyPersistent(graph, serial, *executor);
  for (int step = 0; step < 3; ++step) {
    StepArguments arguments;
    arguments.step = step;
    const auto result = executor->Step(
        {DType::kRing64, serial.value(graph.only(TensorRole::kSamples)).bytes},
        {DType::kInt32, serial.value(graph.only(TensorRole::kLabels)).bytes}, arguments);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(serial.Step(arguments).ok());
    uint64_t loss = 0;
    ASSERT_TRUE(executor->ReadOutput(0, std::as_writable_bytes(std::span(&loss, 1))).ok());
    EXPECT_EQ(loss, serial.value(graph.only(TensorRole::kLoss)).as<uint64_t>()[0])
        << "step " << step;
    ExpectSamePersistent(graph, serial, *executor);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ExecutorTest, testing::Values(1, 2, 3, 4));

// Notes what devices are opened with.
class NotingBackend : public Backend {
 public:
  explicit NotingBackend(std::vector<DeviceSpec>& opened) : opened_(opened) {}
  std::string name() const override { return inner_->name(); }
  absl::Status Available() const override { return inner_->Available(); }
  bool RunsOnHost() const override { return inner_->RunsOnHost(); }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    opened_.push_back(spec);
    return inner_->Open(spec);
  }

 private:
  const std::shared_ptr<const Backend> inner_ = ModelWriter::Get(MakeBackend("reference"));
  std::vector<DeviceSpec>& opened_;
};

// Or copies of a weight whose gradient several devices compute would differ.
TEST(ExecutorTest, ItsDevicesChooseAlgorithmsAlike) {
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(ConvModel(), TrainingOptions{}));
  PlannedStep step =
      ModelWriter::Get(CanonicalStep(graph, SplitFirstLoop(graph, 2), {.devices = 2}));
  std::vector<DeviceSpec> opened;
  ExecutorSetup setup;
  setup.devices = VirtualDevices(std::make_shared<NotingBackend>(opened), 2);
  setup.communicator = "inproc";
  const auto executor = ModelWriter::Get(OpenExecutor(graph, std::move(step), setup));
  ASSERT_EQ(opened.size(), 2u);
  EXPECT_NE(opened[0].algorithms, nullptr);
  EXPECT_EQ(opened[0].algorithms, opened[1].algorithms);
}

// As cores and a GPU do: each updates its copy of a weight with its own rounding.
TEST(ExecutorTest, CopiesOnDevicesOfSeveralBackendsAgreeWithinTheTolerance) {
  const auto cpu = MakeBackend("cpu");
  if (!cpu.ok()) GTEST_SKIP() << cpu.status();
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(ConvModel(), TrainingOptions{}));
  PlannedStep step =
      ModelWriter::Get(CanonicalStep(graph, SplitFirstLoop(graph, 2), {.devices = 2}));
  ExecutorSetup setup;
  setup.devices = {{*cpu, {}}, {ModelWriter::Get(MakeBackend("reference")), {}}};
  setup.communicator = "inproc";
  const auto executor = ModelWriter::Get(OpenExecutor(graph, std::move(step), setup));
  SerialTrainer serial(graph, 3);
  CopyPersistent(graph, serial, *executor);
  for (int k = 0; k < 3; ++k) {
    StepArguments arguments;
    arguments.step = k;
    arguments.weight_decay = 0.01;
    ASSERT_EQ(
        executor
            ->Step({DType::kFloat32, serial.value(graph.only(TensorRole::kSamples)).bytes},
                   {DType::kInt32, serial.value(graph.only(TensorRole::kLabels)).bytes}, arguments)
            .status(),
        absl::OkStatus());
  }
  EXPECT_EQ(executor->CheckCopies(), absl::OkStatus());
}

TEST(ExecutorTest, CountsTheBytesThatThePlanSays) {
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(ConvModel(), TrainingOptions{}));
  const auto executor = MakeExecutor(graph, SplitFirstLoop(graph, 3), 3);
  const std::vector<float> x = RandomNumbers(6 * 3 * 7 * 5, 1);
  const std::vector<int32_t> labels = RandomLabels(6, 5);
  ASSERT_TRUE(executor->Step(HostTensorOf(x), HostTensorOf(labels), {}).ok());
  EXPECT_EQ(executor->BytesReceived(), BytesReceived(executor->program().tasks));
}

TEST(ExecutorTest, RefusesValuesThatAreNotThoseOfTheWholeTensor) {
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(ConvModel(), TrainingOptions{}));
  const auto executor = MakeExecutor(graph, SplitFirstLoop(graph, 2), 2);
  const std::vector<float> x = RandomNumbers(6 * 3 * 7 * 5, 1);
  const std::vector<int32_t> labels = RandomLabels(6, 5);
  const auto refusal = [&](const HostTensor& input, const HostTensor& of_labels) {
    executor->Stage(input, of_labels);
    const absl::Status status = executor->Step(input, of_labels, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(HostTensorOf(std::span(x).first(5)), HostTensorOf(labels)),
            "a batch of samples takes 2520 bytes, f32[6,3,7,5]; given were 20 of f32");
  EXPECT_EQ(refusal(HostTensorOf(x), HostTensorOf(std::span(labels).first(5))),
            "a batch of labels takes 24 bytes, i32[6]; given were 20 of i32");
  EXPECT_EQ(refusal(HostTensorOf(x), {DType::kFloat32, std::as_bytes(std::span(labels))}),
            "a batch of labels takes 24 bytes, i32[6]; given were 24 of f32");
  const TensorId weight = graph.weights()[0].tensor;
  EXPECT_EQ(executor->WriteTensor(weight, HostTensorOf(x)).code(),
            absl::StatusCode::kInvalidArgument);
  std::vector<std::byte> values(3);
  EXPECT_EQ(executor->ReadTensor(weight, values).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(executor->Step(HostTensorOf(x), HostTensorOf(labels), {}).status(), absl::OkStatus());
  EXPECT_EQ(executor->ReadOutput(0, values).message(),
            "output 0 takes 4 bytes, f32[]; given were 3 of f32");
}

// The step is one of seconds.
TEST(ExecutorTest, AStepEndsCancelledWhenTheFlagIsSetAndSoDoLaterOnes) {
  ModelWriter m("deep", DType::kFloat32);
  TensorId x = m.Input({128, 1024});
  for (int layer = 0; layer < 12; ++layer) x = m.Linear(absl::StrCat("fc", layer), x, 1024);
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(m.Finish(x), TrainingOptions{}));
  std::atomic<bool> stop = false;
  const auto executor =
      MakeExecutor(graph, SplitFirstLoop(graph, 2), 2, ExecutorOptions{.stop = &stop});
  const std::vector<float> input(128 * 1024);
  const std::vector<int32_t> labels(128);
  std::thread interrupt([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop = true;
  });
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(executor->Step(HostTensorOf(input), HostTensorOf(labels), {}).status().code(),
              absl::StatusCode::kCancelled);
  }
  interrupt.join();
}

TEST(ExecutorTest, NamesTheFirstOperatorAndTensorThatIsNotFinite) {
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(ConvModel(), TrainingOptions{}));
  const auto executor = MakeExecutor(graph, SplitFirstLoop(graph, 2), 2, {.check_finite = true});
  SerialTrainer serial(graph, 3);
  CopyPersistent(graph, serial, *executor);
  const std::vector<float> good = RandomNumbers(6 * 3 * 7 * 5, 1);
  const std::vector<int32_t> labels = RandomLabels(6, 5);
  const auto step = [&](const std::vector<float>& x) {
    return executor->Step(HostTensorOf(x), HostTensorOf(labels), {}).status();
  };
  EXPECT_EQ(step(good), absl::OkStatus());
  // Read by the second device only.
  std::vector<float> x = good;
  x.back() = std::numeric_limits<float>::quiet_NaN();
  absl::Status status = step(x);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            absl::StrCat("tensor '", graph.tensor(graph.only(TensorRole::kSamples)).name,
                         "', as operator 'conv1' part 1 on device 1 reads it, "
                         "holds NaN or infinity"));
  // Each element is finite, its products are not.
  x.back() = 3e38f;
  CopyPersistent(graph, serial, *executor);
  const TensorId weight = graph.weights()[0].tensor;
  std::vector<float> weights(static_cast<size_t>(Volume(graph.tensor(weight).type.shape)), 100.f);
  ASSERT_EQ(executor->WriteTensor(weight, HostTensorOf(weights)), absl::OkStatus());
  status = step(x);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            "operator 'conv1' part 1 on device 1 produced NaN or infinity, in tensor 'conv1'");
  // The devices go on, with weights that are good again.
  CopyPersistent(graph, serial, *executor);
  EXPECT_EQ(step(good), absl::OkStatus());
  EXPECT_EQ(executor->CheckValues({{weight}}), absl::OkStatus());
  weights[5] = -std::numeric_limits<float>::infinity();
  ASSERT_EQ(executor->WriteTensor(weight, HostTensorOf(weights)), absl::OkStatus());
  EXPECT_THAT(std::string(executor->CheckValues({{weight}}).message()),
              testing::StartsWith(absl::StrCat("'", graph.tensor(weight).name, "' ")));
}

// Each device's part of the sum is finite.
TEST(ExecutorTest, NamesTheTensorWhoseSumOverDevicesIsNotFinite) {
  ModelWriter m("sum", DType::kFloat32);
  const TensorId w = m.Constant("w", {3, 2}, 1, true);
  const TensorId y = ModelWriter::Get(m.builder.Add(
      {.name = "fc", .attrs = MatMul{.transposed = true}, .inputs = {m.Input({2, 2}), w}}));
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(m.Finish(y), TrainingOptions{}));
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    if (graph.op(id).name != "fc") continue;
    const auto& loops = graph.rule(id).loops;
    const auto inner = std::find_if(loops.begin(), loops.end(),
                                    [](const LoopDim& loop) { return loop.name == "i"; });
    ASSERT_NE(inner, loops.end());
    strategy.configs[id.index()].degrees[static_cast<size_t>(inner - loops.begin())] = 2;
    strategy.configs[id.index()].devices = {DeviceId(0), DeviceId(1)};
  }
  const auto executor = MakeExecutor(graph, strategy, 2, {.check_finite = true});
  CopyPersistent(graph, SerialTrainer(graph), *executor);
  const std::vector<int32_t> labels = {0, 1};
  for (const float large : {1.f, 3e38f}) {
    const std::vector<float> x(4, large);
    const absl::Status status = executor->Step(HostTensorOf(x), HostTensorOf(labels), {}).status();
    if (large == 1.f) {
      EXPECT_EQ(status, absl::OkStatus());
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(status.message()),
                testing::MatchesRegex("tensor 'fc', as operator '.*' part 0 on device 0 reads it, "
                                      "holds NaN or infinity"));
  }
}

#ifdef PARTITA_HAVE_DNNL
// Convolutions with strides, groups and pads, pools of both kinds, batch norm, a residual, linear
// layers.
Graph WideModel() {
  ModelWriter m("wide", DType::kFloat32);
  auto add = [&m](std::string name, OpAttrs attrs, std::vector<TensorId> inputs) {
    return ModelWriter::Get(m.builder.Add(
        {.name = std::move(name), .attrs = std::move(attrs), .inputs = std::move(inputs)}));
  };
  TensorId x = m.Relu("relu1", m.Conv("conv1", m.Input({6, 3, 17, 14}), 16));
  x = add("pool1", Pool2d{.kernel = {3, 3}, .stride = {2, 2}}, {x});
  x = add("conv2", Conv2d{.stride = {2, 1}, .pads = {2, 1, 2, 1}, .groups = 2},
          {x, m.Weight("conv2.weight", {32, 8, 5, 3}, 120), m.Weight("conv2.bias", {32}, 120)});
  TensorId y = m.Relu("relu2", m.BatchNorm("bn2", x));
  y = m.Conv("conv3", y, 32);
  x = m.Relu("relu3", m.Binary("residual", "add", x, y));
  x = add("pool2",
          Pool2d{.function = "average",
                 .kernel = {2, 2},
                 .stride = {2, 2},
                 .pads = {1, 1, 0, 0},
                 .counted = {1, 1, 0, 0}},
          {x});
  const Shape& shape = m.builder.tensor(x).type.shape;
  x = add("flat", Reshape{.shape = {shape[0], shape[1] * shape[2] * shape[3]}}, {x});
  return m.Finish(m.Linear("fc2", m.Relu("relu4", m.Linear("fc1", x, 40)), 7));
}

bool AnyNative(const Executor& executor) {
  const auto buffers = executor.program().tasks.buffers();
  return std::any_of(buffers.begin(), buffers.end(),
                     [](const Buffer& buffer) { return buffer.format == Format::kNative; });
}

// Three steps of both from the same weights.
void ExpectTrainsLike(SerialTrainer& serial, Executor& executor) {
  const Graph& graph = serial.graph();
  CopyPersistent(graph, serial, executor);
  const std::vector<float> x =
      RandomNumbers(Volume(graph.WholeType(TensorRole::kSamples).shape), 1);
  const std::vector<int32_t> labels = RandomLabels(6, 7);
  for (int step = 0; step < 3; ++step) {
    StepArguments arguments;
    arguments.step = step;
    const auto result = executor.Step(HostTensorOf(x), HostTensorOf(labels), arguments);
    ASSERT_TRUE(result.ok()) << result.status();
    const auto loss = serial.Step(x, labels, arguments);
    ASSERT_TRUE(loss.ok());
    EXPECT_NEAR(result->outputs[0], *loss, 1e-4 * std::abs(*loss)) << "step " << step;
  }
  for (const Weight& weight : graph.weights()) {
    const Tensor& tensor = graph.tensor(weight.tensor);
    DenseTensor value(tensor.type);
    ASSERT_TRUE(executor.ReadTensor(tensor.id, value.bytes).ok());
    const std::vector<double> want = serial.Get(tensor.id);
    double largest = 0, error = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      error = std::max(error, std::abs(want[i] - value.as<float>()[i]));
    }
    EXPECT_LE(error, 1e-3 * largest) << tensor.name;
  }
}

TEST_P(ExecutorTest, CpuBackendFollowsTheSerialRun) {
  const int devices = GetParam();
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(WideModel(), TrainingOptions{}));
  SerialTrainer serial(graph, 3);
  const auto executor = MakeExecutor(graph, SplitFirstLoop(graph, devices), devices, {}, "cpu");
  EXPECT_TRUE(AnyNative(*executor));
  ExpectTrainsLike(serial, *executor);
}

// "gpu0".. that have memory of their own, then "core0".., which exchange over a bus.
DeviceTopology CoresAndGpus(int gpus, int cores, DeviceKind kind = DeviceKind::kGpu) {
  std::vector<Device> devices;
  Link bus{.name = "pcie", .bytes_per_second = 1'000'000'000, .shared = true};
  for (int d = 0; d < gpus + cores; ++d) {
    const bool gpu = d < gpus;
    devices.push_back({.name = gpu ? absl::StrCat("gpu", d) : absl::StrCat("core", d - gpus),
                       .kind = gpu ? kind : DeviceKind::kCpu,
                       .device_class = gpu ? "gpu" : "core",
                       .memory = Bytes(int64_t{1} << 30)});
    bus.ends.push_back(devices.back().name);
  }
  return ModelWriter::Get(DeviceTopology::Create(std::move(devices), {std::move(bus)}));
}

// Pools on cores, all else on what stands for GPUs: `first` for device 0, if given.
std::unique_ptr<Executor> MixedExecutor(const Graph& graph, int each,
                                        DeviceKind kind = DeviceKind::kGpu,
                                        std::shared_ptr<const Backend> first = nullptr) {
  const DeviceTopology topology = CoresAndGpus(each, each, kind);
  const Strategy strategy = ModelWriter::Get(OperatorPlacement(graph, topology));
  const auto cpu = ModelWriter::Get(MakeBackend("cpu"));
  ExecutorSetup setup{.communicator = "streams"};
  for (int d = 0; d < 2 * each; ++d) {
    setup.devices.push_back(d < each ? PlacedDevice{FarMemoryBackend(cpu), {.index = 1 + d}}
                                     : PlacedDevice{cpu, {}});
  }
  if (first != nullptr) setup.devices[0].backend = FarMemoryBackend(std::move(first));
  return ModelWriter::Get(
      OpenExecutor(graph,
                   ModelWriter::Get(CanonicalStep(
                       graph, strategy, PartitionOptionsOf(topology, {.native_formats = true}))),
                   setup));
}

TEST_P(ExecutorTest, APlanOverTwoDeviceClassesFollowsTheSerialRun) {
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(WideModel(), TrainingOptions{}));
  // GPUs have no native format; each of two classes of cores has one of its own.
  for (DeviceKind kind : {DeviceKind::kGpu, DeviceKind::kCpu}) {
    const auto executor = MixedExecutor(graph, GetParam(), kind);
    EXPECT_EQ(CheckTasks(graph, executor->program().tasks), absl::OkStatus());
    EXPECT_EQ(AnyNative(*executor), kind == DeviceKind::kCpu);
    SerialTrainer serial(graph, 3);
    ExpectTrainsLike(serial, *executor);
    for (Bytes received : executor->BytesReceived()) EXPECT_GT(received.value(), 0);
  }
}

// Devices that wait for signals of the one that failed are released, and say what it said.
TEST(ExecutorTest, AFailureOfOneDeviceClassEndsTheStepOfTheOther) {
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(WideModel(), TrainingOptions{}));
  const auto executor = MixedExecutor(graph, 2, DeviceKind::kGpu, FailingBackend(0));
  EXPECT_THAT(executor->KernelNotes(),
              testing::ElementsAre(testing::HasSubstr(" kernels: fail as planted")));
  SerialTrainer serial(graph, 3);
  CopyPersistent(graph, serial, *executor);
  const std::vector<float> x =
      RandomNumbers(Volume(graph.WholeType(TensorRole::kSamples).shape), 1);
  const std::vector<int32_t> labels = RandomLabels(6, 7);
  const auto result = executor->Step(HostTensorOf(x), HostTensorOf(labels), {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange) << result.status();
  EXPECT_EQ(result.status().message(), "planted failure");
}
#endif

}  // namespace
}  // namespace partita

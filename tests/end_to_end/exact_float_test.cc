// One float step of a split graph equals the serial step in every element, on every backend and
// with its native formats, where no sum can round: small integers, checked magnitudes. Then it does
// so in any element types, too.

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "graph/partition/partition.h"
#include "graph/task/task_order.h"
#include "graph/verify/step_verifier.h"
#include "gtest/gtest.h"
#include "runtime/backend/backends.h"
#include "runtime/comm/communicators.h"
#include "runtime/executor/executor.h"
#include "tests/testing/exact_model.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr int kExactPairs = 500;
// Rate, momentum and decay add up to four bits of fraction.
constexpr double kLimit = 1 << 20;

absl::Status Compare(const Graph& graph, const SerialTrainer& serial, Executor& executor) {
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::kWeight && tensor.kind != TensorKind::kState) continue;
    DenseTensor found(tensor.type);
    if (absl::Status status = executor.ReadTensor(tensor.id, found.bytes); !status.ok()) {
      return status;
    }
    const auto got = found.as<float>();
    const auto want = serial.value(tensor.id).as<float>();
    for (size_t i = 0; i < want.size(); ++i) {
      if (got[i] == want[i]) continue;  // 0 and -0 are equal
      return absl::DataLossError(
          absl::StrCat(tensor.name, " element ", i, ": ", got[i], ", serially ", want[i]));
    }
  }
  return executor.CheckCopies();
}

struct Row {
  const char* backend;
  bool native;         // PartitionOptions::native_formats
  bool mixed = false;  // random PartitionOptions::element_types
};

// The kernels with a native piece, by operator.
class NativeKernels {
 public:
  // Counts those of a task graph; false if it has none.
  bool Add(const TaskGraph& tasks) {
    bool any = false;
    for (const KernelSignature& signature : tasks.signatures()) {
      bool native = false;
      for (const auto* list : {&signature.inputs, &signature.outputs}) {
        for (const KernelTensor& tensor : *list) native |= tensor.format == Format::kNative;
      }
      if (native) ++counts_[std::string(NameOf(signature.attrs))];
      any |= native;
    }
    return any;
  }
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  std::map<std::string, int> counts_;
};

TaskGraph RandomlySplit(const Graph& graph, const Row& row, std::mt19937_64& random) {
  PartitionOptions options = RandomPartitionOptions(random);
  options.devices = 1 + static_cast<int>(random() % 4);
  options.node_of_device.clear();
  options.native_formats = row.native;
  for (size_t k = 0; row.mixed && k < graph.ops().size(); ++k) {
    options.element_types.push_back(random() % 2 == 0 ? DType::kFloat32 : DType::kFloat64);
  }
  const Strategy strategy = RandomStrategy(graph, options.devices, random);
  TaskGraph tasks = ModelWriter::Get(Partition(graph, strategy, options));
  const std::vector<TaskId> order = CanonicalOrder(tasks);
  const absl::Status status = VerifyStep({graph, strategy, tasks, order});
  EXPECT_TRUE(status.ok()) << status;
  return tasks;
}

// Conversions by "f64->f32" and, where it changes too, the format.
void CountConversions(const TaskGraph& tasks, std::map<std::string, int>& counts) {
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<MoveTask>(&task.body);
    if (body == nullptr || body->from == body->dtype) continue;
    EXPECT_EQ(body->moves.size(), 1u);
    const Buffer& from = tasks.buffer(body->moves[0].from.buffer);
    const Buffer& to = tasks.buffer(body->moves[0].to.buffer);
    EXPECT_EQ(from.dtype, body->from);
    EXPECT_EQ(to.dtype, body->dtype);
    ++counts[absl::StrCat(Name(from.dtype), from.format == Format::kNative ? "n" : "", "->",
                          Name(to.dtype), to.format == Format::kNative ? "n" : "")];
  }
}

// Runs one step of `tasks`, made from `serial`'s graph; `serial` has the values to start from and
// is stepped too.
absl::Status RunPair(SerialTrainer& serial, TaskGraph tasks,
                     std::shared_ptr<const Backend> backend) {
  const Graph& graph = serial.graph();
  const int devices = tasks.devices();
  std::vector<TaskId> order = CanonicalOrder(tasks);
  ExecutorOptions executor_options;
  executor_options.devices.assign(static_cast<size_t>(devices), {std::move(backend), {}});
  const auto executor = ModelWriter::Get(Executor::Create(
      std::move(tasks), std::move(order), graph,
      ModelWriter::Get(MakeCommunicator("inproc", {.devices = devices})), executor_options));
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::kWeight && tensor.kind != TensorKind::kState) continue;
    const absl::Status status =
        executor->WriteTensor(tensor.id, {DType::kFloat32, serial.value(tensor.id).bytes});
    if (!status.ok()) return status;
  }
  const auto result = executor->Step(
      {DType::kFloat32, serial.value(graph.only(TensorRole::kSamples)).bytes}, {}, ExactStep());
  if (!result.ok()) return result.status();
  if (absl::Status status = serial.Step(ExactStep()); !status.ok()) return status;
  if (result->outputs[0] != serial.loss()) {
    return absl::DataLossError(
        absl::StrCat("loss ", result->outputs[0], ", serially ", serial.loss()));
  }
  return Compare(graph, serial, *executor);
}

class ExactFloatTest : public ::testing::TestWithParam<Row> {};

TEST_P(ExactFloatTest, RandomPlansEqualTheSerialStepInEveryElement) {
  const auto backend = MakeBackend(GetParam().backend);
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  int rejected = 0, all_dense = 0;
  double largest = 0;
  NativeKernels native_kernels;
  std::map<std::string, int> conversions;
  for (int pair = 0; pair < kExactPairs;) {
    std::mt19937_64 random(static_cast<uint64_t>(pair + rejected + all_dense));
    SerialTrainer serial(RandomExactGraph(random));
    FillWithSmallIntegers(serial, random);
    SerialTrainer trial = serial;
    ASSERT_TRUE(trial.Step(ExactStep()).ok());
    const double sum = LargestSumOfMagnitudes(trial, ExactStep());
    if (sum >= kLimit) {
      ASSERT_LT(++rejected, kExactPairs);
      continue;
    }
    TaskGraph tasks = RandomlySplit(serial.graph(), GetParam(), random);
    if (GetParam().native && !native_kernels.Add(tasks)) {
      ASSERT_LT(++all_dense, 10 * kExactPairs);
      continue;
    }
    largest = std::max(largest, sum);
    CountConversions(tasks, conversions);
    const absl::Status status = RunPair(serial, std::move(tasks), *backend);
    ASSERT_TRUE(status.ok()) << "seed " << pair + rejected + all_dense << ": " << status;
    ++pair;
  }
  std::printf("%d pairs, %d graphs rejected for their magnitudes, largest sum %.0f\n", kExactPairs,
              rejected, largest);
  std::set<std::string> expected;
  if (GetParam().mixed) expected = {"f32->f64", "f64->f32"};
  if (GetParam().mixed && GetParam().native) expected.insert({"f32n->f64", "f64->f32n"});
  for (const auto& [name, count] : conversions) {
    std::printf("%d conversions %s\n", count, name.c_str());
    EXPECT_EQ(expected.erase(name), 1u) << name;
  }
  EXPECT_THAT(expected, ::testing::IsEmpty());
  if (!GetParam().native) return;
  std::printf("%d split graphs without native buffers passed over; native kernels:", all_dense);
  for (const auto& [name, count] : native_kernels.counts()) {
    std::printf(" %s=%d", name.c_str(), count);
  }
  std::printf("\n");
  for (const char* name : {"conv2d", "pool2d", "relu"}) {
    const auto it = native_kernels.counts().find(name);
    EXPECT_TRUE(it != native_kernels.counts().end() && it->second >= (GetParam().mixed ? 30 : 100))
        << name;
  }
}

// Every backend with dense buffers, and the one that has a native format with that.
std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (const BackendRow& row : Backends()) rows.push_back({row.name, false});
  rows.push_back({"cpu", true});
  rows.push_back({"reference", false, true});
  rows.push_back({"cpu", true, true});
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Backends, ExactFloatTest, ::testing::ValuesIn(Rows()),
                         [](const auto& info) {
                           return absl::StrCat(info.param.backend,
                                               info.param.native ? "_native" : "",
                                               info.param.mixed ? "_mixed" : "");
                         });

}  // namespace
}  // namespace partita

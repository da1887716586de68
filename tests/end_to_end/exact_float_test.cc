// One float step of a split graph equals the serial step in every element, on every backend, where
// no sum can round: small integers, checked magnitudes.

#include <cstdio>

#include "gmock/gmock.h"
#include "graph/task/partition.h"
#include "gtest/gtest.h"
#include "runtime/backend/backends.h"
#include "runtime/comm/communicators.h"
#include "runtime/executor/executor.h"
#include "tests/testing/exact_model.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr int kPairs = 500;
// Rate, momentum and decay add up to four bits of fraction.
constexpr double kLimit = 1 << 20;

absl::Status Compare(const Graph& graph, const SerialTrainer& serial, Executor& executor) {
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::kWeight && tensor.kind != TensorKind::kState) continue;
    DenseTensor found(tensor.type);
    if (absl::Status status = executor.ReadTensor(tensor.id, found.bytes.data()); !status.ok()) {
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

// Runs one step of `serial`'s graph split at random; `serial` has the values to start from and is
// stepped too.
absl::Status RunPair(SerialTrainer& serial, const Backend& backend, std::mt19937_64& random) {
  const Graph& graph = serial.graph();
  PartitionOptions options = RandomPartitionOptions(random);
  options.devices = 1 + static_cast<int>(random() % 4);
  options.node_of_device.clear();
  const Strategy strategy = RandomStrategy(graph, options.devices, random);
  TaskGraph tasks = ModelWriter::Get(Partition(graph, strategy, options));
  std::vector<TaskId> order = CanonicalOrder(tasks);
  ExecutorOptions executor_options;
  executor_options.devices.resize(static_cast<size_t>(options.devices));
  const auto executor = ModelWriter::Get(Executor::Create(
      std::move(tasks), std::move(order), graph, backend,
      ModelWriter::Get(MakeCommunicator("inproc", options.devices)), executor_options));
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::kWeight && tensor.kind != TensorKind::kState) continue;
    const absl::Status status =
        executor->WriteTensor(tensor.id, {DType::kFloat32, serial.value(tensor.id).bytes.data()});
    if (!status.ok()) return status;
  }
  const auto result =
      executor->Step({DType::kFloat32, serial.value(graph.input()).bytes.data()}, {}, ExactStep());
  if (!result.ok()) return result.status();
  if (absl::Status status = serial.Step(ExactStep()); !status.ok()) return status;
  if (result->outputs[0] != serial.loss()) {
    return absl::DataLossError(
        absl::StrCat("loss ", result->outputs[0], ", serially ", serial.loss()));
  }
  return Compare(graph, serial, *executor);
}

class ExactFloatTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ExactFloatTest, RandomPlansEqualTheSerialStepInEveryElement) {
  const auto backend = MakeBackend(GetParam());
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  int rejected = 0;
  double largest = 0;
  for (int pair = 0; pair < kPairs;) {
    std::mt19937_64 random(static_cast<uint64_t>(pair + rejected));
    SerialTrainer serial(RandomExactGraph(random));
    FillWithSmallIntegers(serial, random);
    SerialTrainer trial = serial;
    ASSERT_TRUE(trial.Step(ExactStep()).ok());
    const double sum = LargestSumOfMagnitudes(trial, ExactStep());
    if (sum >= kLimit) {
      ASSERT_LT(++rejected, kPairs);
      continue;
    }
    largest = std::max(largest, sum);
    const absl::Status status = RunPair(serial, **backend, random);
    ASSERT_TRUE(status.ok()) << "seed " << pair + rejected << ": " << status;
    ++pair;
  }
  std::printf("%s: %d pairs, %d graphs rejected for their magnitudes, largest sum %.0f\n",
              GetParam(), kPairs, rejected, largest);
}

std::vector<const char*> BackendNames() {
  std::vector<const char*> names;
  for (const BackendRow& row : Backends()) names.push_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Backends, ExactFloatTest, ::testing::ValuesIn(BackendNames()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace partita

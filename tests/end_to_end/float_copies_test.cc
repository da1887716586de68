// Copies of weights and optimizer states stay equal, bit for bit, in float, where the order of
// additions shows: on random graphs and plans, several steps, on every backend.

#include <cmath>
#include <cstdio>
#include <random>

#include "gmock/gmock.h"
#include "graph/partition/partition.h"
#include "gtest/gtest.h"
#include "runtime/backend/backends.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/training_state.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/noisy_backend.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr int kCopiesPairs = 250, kSteps = 3;

// Bytes of persistent pieces that are copies.
int64_t CopiedBytes(const Graph& graph, const TaskGraph& tasks) {
  int64_t bytes = 0;
  for (const Buffer& buffer : tasks.buffers()) {
    if (buffer.persistent()) bytes += buffer.elements() * SizeOf(buffer.dtype);
  }
  for (const Tensor& tensor : graph.tensors()) {
    if (LivesBetweenSteps(tensor)) bytes -= tensor.type.bytes();
  }
  return bytes;
}

struct Coverage {
  int pairs_with_copies = 0, finite = 0;
  StrategyCoverage strategies;
};

// A batch of numbers in [-1, 1), or of integers that the graph's samples may be, with random classes.
struct RandomBatch {
  RandomBatch(const Graph& graph, uint64_t stream) {
    const TensorType type = graph.WholeType(TensorRole::kSamples);
    if (type.dtype == DType::kInt32) {
      const int64_t limit = graph.IndexLimitOf(graph.tensors(TensorRole::kSamples)[0]);
      indices = RandomLabels(Volume(type.shape), static_cast<int32_t>(limit));
    } else {
      numbers = RandomNumbers(Volume(type.shape), stream);
    }
    if (graph.tensors(TensorRole::kLabels).empty()) return;
    const int64_t classes = graph.WholeType(TensorRole::kLogits).shape.back();
    labels = RandomLabels(Volume(graph.WholeType(TensorRole::kLabels).shape),
                          static_cast<int32_t>(classes));
  }
  HostTensor samples() const {
    return indices.empty() ? HostTensorOf(numbers) : HostTensorOf(indices);
  }

  std::vector<float> numbers;
  std::vector<int32_t> indices, labels;
};

// How kernels are chosen.
struct Kernels {
  bool native = false;            // native formats
  bool nondeterministic = false;  // where they may be
};

absl::Status Train(std::shared_ptr<const Backend> backend, Kernels kernels, std::mt19937_64& random,
                   Coverage& coverage) {
  const Graph graph = RandomTrainingGraph(random);
  PartitionOptions options = RandomPartitionOptions(random);
  options.devices = 2 + static_cast<int>(random() % 6);
  options.node_of_device.clear();
  options.native_formats = kernels.native;
  options.nondeterministic_of_device.assign(static_cast<size_t>(options.devices),
                                            kernels.nondeterministic);
  const Strategy strategy = RandomStrategy(graph, options.devices, random);
  coverage.strategies.Add(graph, strategy, options.devices);
  const auto executor = ModelWriter::Get(
      OpenExecutor(graph, ModelWriter::Get(CanonicalStep(graph, strategy, options)),
                   {.devices = VirtualDevices(std::move(backend), options.devices)}));
  coverage.pairs_with_copies += CopiedBytes(graph, executor->program().tasks) > 0 ? 1 : 0;
  const TrainingState start = ModelWriter::Get(InitialState(graph, random()));
  if (absl::Status status = WriteValues(graph, start, *executor); !status.ok()) return status;
  double loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    const RandomBatch batch(graph, random());
    const auto result = executor->Step(batch.samples(), HostTensorOf(batch.labels),
                                       {.step = step, .seed = 7, .weight_decay = 0.01});
    if (!result.ok()) return result.status();
    if (absl::Status status = executor->CheckCopies(); !status.ok()) return status;
    loss = result->outputs[*OutputIndex(executor->program().tasks, graph.only(TensorRole::kLoss))];
  }
  coverage.finite += std::isfinite(loss) ? 1 : 0;
  return absl::OkStatus();
}

class BackendCopiesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BackendCopiesTest, RandomPlansKeepCopiesEqualBitForBit) {
  const auto backend = MakeBackend(GetParam());
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  Coverage coverage;
  for (int pair = 0; pair < kCopiesPairs; ++pair) {
    std::mt19937_64 random(static_cast<uint64_t>(pair));
    EXPECT_EQ(Train(*backend, {.native = GetParam() == std::string("cpu")}, random, coverage),
              absl::OkStatus())
        << "seed " << pair;
  }
  std::printf("%s: %d pairs, %d with copies, %d with a finite loss, %.0f %% with replicas\n",
              GetParam(), kCopiesPairs, coverage.pairs_with_copies, coverage.finite,
              100 * coverage.strategies.Share("replica"));
  EXPECT_GE(coverage.pairs_with_copies, kCopiesPairs / 2);
  EXPECT_GE(coverage.finite, kCopiesPairs / 2);
  EXPECT_GE(coverage.strategies.Share("replica"), 0.3);
}

// What several devices compute alike stays deterministic; what one computes may differ, since the
// others get it from that one.
TEST(FloatCopiesTest, KernelsThatAreNotDeterministicKeepCopiesEqualBitForBit) {
  Coverage coverage;
  for (int pair = 0; pair < kCopiesPairs; ++pair) {
    std::mt19937_64 random(static_cast<uint64_t>(pair));
    EXPECT_EQ(Train(NoisyBackend(false), {.nondeterministic = true}, random, coverage),
              absl::OkStatus())
        << "seed " << pair;
  }
  EXPECT_GE(coverage.pairs_with_copies, kCopiesPairs / 2);
  EXPECT_GE(coverage.strategies.Share("replica"), 0.3);
}

// As if every product might differ: then copies do, and are found.
TEST(FloatCopiesTest, CopiesThatAreComputedApartByKernelsThatAreNotDeterministicAreFound) {
  Coverage coverage;
  int found = 0;
  for (int pair = 0; pair < kCopiesPairs; ++pair) {
    std::mt19937_64 random(static_cast<uint64_t>(pair));
    const absl::Status status = Train(NoisyBackend(true), {}, random, coverage);
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    ++found;
  }
  std::printf("%d of %d pairs\n", found, kCopiesPairs);
  EXPECT_GE(found, 3);
}

std::vector<const char*> BackendNames() {
  std::vector<const char*> names;
  for (const BackendRow& row : Backends()) names.push_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendCopiesTest, ::testing::ValuesIn(BackendNames()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace partita

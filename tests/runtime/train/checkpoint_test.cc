#include "runtime/train/checkpoint.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/training/training_graph.h"
#include "gtest/gtest.h"
#include "runtime/train/data/safetensors.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Graph Model(int64_t hidden, TrainingOptions options = {}, bool with_extra = false) {
  ModelWriter m("model", DType::kFloat32);
  TensorId x = m.Relu("relu", m.BatchNorm("bn", m.Linear("fc1", m.Input({4, 3}), hidden)));
  if (with_extra) x = m.Linear("extra", x, hidden);
  return ModelWriter::Get(BuildTrainingGraph(m.Finish(m.Linear("fc2", x, 5)), options));
}

TrainingState RandomState(const Graph& graph) {
  TrainingState state = ModelWriter::Get(InitialState(graph, 17));
  state.step = 35;
  state.position = {.epoch = 2, .batch = 3};  // of 16 batches of 4
  state.samples = 64;
  for (const Tensor& tensor : graph.tensors()) {
    if (!LivesBetweenSteps(tensor)) continue;
    const auto numbers = RandomNumbers(Volume(tensor.type.shape), tensor.id.value());
    const auto* bytes = reinterpret_cast<const std::byte*>(numbers.data());
    state.values[tensor.id.index()].assign(bytes, bytes + 4 * numbers.size());
  }
  return state;
}

std::string Path(const std::string& name) { return ::testing::TempDir() + "/" + name; }

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The first of them, by as many bytes.
void Replace(std::string& bytes, const std::string& old, const std::string& by) {
  ASSERT_EQ(old.size(), by.size());
  const size_t at = bytes.find(old);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, old.size(), by);
}

// As files were before they had checksums: the keys are another program's.
void RemoveChecksums(std::string& bytes) {
  for (size_t at; (at = bytes.find("partita.sha256")) != std::string::npos;) {
    bytes.replace(at, 14, "another.sha256");
  }
}

TEST(CheckpointTest, RoundTripsEverything) {
  for (auto optimizer : {TrainingOptions::kSgd, TrainingOptions::kAdam}) {
    const Graph graph = Model(6, {.optimizer = optimizer});
    const TrainingState state = RandomState(graph);
    const std::string path = Path("round_trip.safetensors");
    ASSERT_EQ(SaveCheckpoint(path, graph, state), absl::OkStatus());
    EXPECT_EQ(ModelWriter::Get(LoadCheckpoint(path, graph)), state);
  }
}

// As checkpoints were before they said how many samples their data had.
TEST(CheckpointTest, LoadsWithoutANumberOfSamples) {
  const Graph graph = Model(6);
  TrainingState state = RandomState(graph);
  const std::string path = Path("no_samples.safetensors");
  ASSERT_EQ(SaveCheckpoint(path, graph, state), absl::OkStatus());
  std::string bytes = BytesOf(path);
  Replace(bytes, "partita.samples", "another.program");
  RemoveChecksums(bytes);
  Write(path, bytes);
  state.samples = 0;
  EXPECT_EQ(ModelWriter::Get(LoadCheckpoint(path, graph)), state);
}

// Each byte of the file is of the length, the header or a tensor.
TEST(CheckpointTest, ADamagedByteAnywhereIsFound) {
  const Graph graph = Model(6);
  const std::string path = Path("damaged.safetensors");
  ASSERT_EQ(SaveCheckpoint(path, graph, RandomState(graph)), absl::OkStatus());
  const std::string whole = BytesOf(path);
  TrainingState state = ModelWriter::Get(InitialState(graph, 1));
  std::mt19937 random(11);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    const auto file = SafetensorsFile::Parse(bytes, "damaged");
    EXPECT_FALSE(file.ok() && file->CheckChecksums().ok()) << "byte " << at;
    if (at % 61 != 0) continue;
    Write(path, bytes);
    EXPECT_FALSE(LoadCheckpoint(path, graph).ok()) << "byte " << at;
    EXPECT_FALSE(LoadWeights(path, graph, state).ok()) << "byte " << at;
  }
  EXPECT_GT(whole.size(), 3000u);
  std::printf("%zu damaged bytes\n", whole.size());
  std::string bytes = whole;
  bytes.back() = static_cast<char>(~bytes.back());
  Write(path, bytes);
  EXPECT_THAT(std::string(LoadCheckpoint(path, graph).status().message()),
              AllOf(HasSubstr(path), HasSubstr("is damaged: the checksum of tensor '")));
}

TEST(CheckpointTest, FilesWithoutChecksumsLoad) {
  const Graph graph = Model(6);
  const TrainingState state = RandomState(graph);
  const std::string path = Path("old.safetensors");
  ASSERT_EQ(SaveCheckpoint(path, graph, state), absl::OkStatus());
  std::string bytes = BytesOf(path);
  RemoveChecksums(bytes);
  Write(path, bytes);
  EXPECT_EQ(ModelWriter::Get(LoadCheckpoint(path, graph)), state);
}

TEST(CheckpointTest, APositionThatNoRunHasIsRefused) {
  const Graph graph = Model(6);
  const std::string path = Path("position.safetensors");
  const TrainingState good = RandomState(graph);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int refused = 0;
  const auto refuse = [&](TrainingState state, const std::string& why) {
    ASSERT_EQ(SaveCheckpoint(path, graph, state), absl::OkStatus());
    const absl::Status status = LoadCheckpoint(path, graph).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_EQ(ReadCheckpointSummary(path, graph).status(), status);
    ++refused;
  };
  for (const int64_t samples : {int64_t{64}, int64_t{0}}) {
    for (const int64_t step : {int64_t{-1}, int64_t{0}, kMost}) {
      TrainingState state = good;
      state.samples = samples;
      state.step = step;
      if (samples == 0 && step > 0) continue;  // of an unknown number of batches
      refuse(state, step < 0 ? "wanted a number from 0 on" : "batch 3 of epoch 2");
    }
    for (const LoaderPosition position :
         {LoaderPosition{-1, 3}, {2, -1}, {2, kMost}, {kMost, 3}, {3, kMost}}) {
      TrainingState state = good;
      state.samples = samples;
      state.position = position;
      refuse(state, "wanted");
    }
  }
  TrainingState state = good;
  state.samples = 3;
  refuse(state, "at least the 4 of a batch");
  EXPECT_EQ(refused, 16);
  ASSERT_EQ(SaveCheckpoint(path, graph, good), absl::OkStatus());
  for (const char* number : {"3x", "-3", "1e", "", "99999999999999999999"}) {
    std::string bytes = BytesOf(path);
    RemoveChecksums(bytes);
    const std::string key = "\"partita.step\":\"35\"";
    bytes.replace(bytes.find(key), key.size(), absl::StrCat("\"partita.step\":\"", number, "\""));
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    length += std::strlen(number) - 2;
    std::memcpy(bytes.data(), &length, 8);
    Write(Path("number.safetensors"), bytes);
    EXPECT_THAT(std::string(LoadCheckpoint(Path("number.safetensors"), graph).status().message()),
                HasSubstr("wanted a number from 0 on"));
  }
}

TEST(CheckpointTest, AMetricIsKept) {
  const Graph graph = Model(6);
  const std::string path = Path("metric.safetensors");
  const CheckpointMetric metric{"evaluation accuracy", 0.1};
  ASSERT_EQ(SaveCheckpoint(path, graph, RandomState(graph), metric), absl::OkStatus());
  const auto summary = ModelWriter::Get(ReadCheckpointSummary(path, graph));
  EXPECT_EQ(summary.step, 35);
  EXPECT_EQ(summary.metric, metric);
  // One that is no number is found whoever reads the file.
  std::string bytes = BytesOf(path);
  RemoveChecksums(bytes);
  Replace(bytes, "\"partita.metric_value\":\"0.1", "\"partita.metric_value\":\"0,1");
  Write(path, bytes);
  const absl::Status refused = LoadCheckpoint(path, graph).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("wanted a number"));
  EXPECT_EQ(ReadCheckpointSummary(path, graph).status(), refused);
}

TEST(CheckpointTest, StoresWeightsUnderTheirOwnNamesAndOptimizerStatesApart) {
  const Graph graph = Model(6);
  const std::string path = Path("names.safetensors");
  ASSERT_EQ(SaveCheckpoint(path, graph, RandomState(graph)), absl::OkStatus());
  const auto file = ModelWriter::Get(SafetensorsFile::Open(path));
  EXPECT_EQ(file.tensors().at("fc1.weight").shape, (std::vector<int64_t>{6, 3}));
  EXPECT_TRUE(file.Contains("bn.running_mean"));
  EXPECT_TRUE(file.Contains("optimizer/fc1.weight.momentum"));
  EXPECT_EQ(file.metadata().at("partita.step"), "35");
  EXPECT_EQ(file.metadata().at("partita.epoch"), "2");
  ASSERT_EQ(SaveWeights(path, graph, RandomState(graph)), absl::OkStatus());
  const auto weights = ModelWriter::Get(SafetensorsFile::Open(path));
  EXPECT_EQ(weights.tensors().size(), graph.weights().size());
}

TEST(CheckpointTest, WeightsLoadFromEitherFileAndLeaveTheRest) {
  const Graph graph = Model(6);
  const TrainingState saved = RandomState(graph);
  const std::string path = Path("either.safetensors");
  for (const bool with_states : {false, true}) {
    ASSERT_EQ(with_states ? SaveCheckpoint(path, graph, saved) : SaveWeights(path, graph, saved),
              absl::OkStatus());
    const TrainingState start = ModelWriter::Get(InitialState(graph, 1));
    TrainingState state = start;
    ASSERT_EQ(LoadWeights(path, graph, state), absl::OkStatus());
    EXPECT_EQ(state.step, 0);
    for (const Tensor& tensor : graph.tensors()) {
      const TrainingState& want = tensor.kind == TensorKind::kWeight ? saved : start;
      EXPECT_EQ(state.values[tensor.id.index()], want.values[tensor.id.index()]) << tensor.name;
    }
  }
}

TEST(CheckpointTest, WeightsOfAnotherWidthConvert) {
  const Graph graph = Model(6);
  const TrainingState saved = RandomState(graph);
  std::vector<std::vector<double>> numbers;
  std::vector<TensorToWrite> tensors;
  for (const Weight& weight : graph.weights()) {
    const Tensor& tensor = graph.tensor(weight.tensor);
    const auto& bytes = saved.values[tensor.id.index()];
    const auto* floats = reinterpret_cast<const float*>(bytes.data());
    numbers.emplace_back(floats, floats + bytes.size() / 4);
  }
  for (size_t w = 0; w < numbers.size(); ++w) {
    const Tensor& tensor = graph.tensor(graph.weights()[w].tensor);
    tensors.push_back(MakeTensorToWrite<double>(
        tensor.name, {tensor.type.shape.begin(), tensor.type.shape.end()}, numbers[w]));
  }
  // PyTorch counts batches in its batch norm; nothing here reads that.
  const std::vector<int64_t> count = {7};
  tensors.push_back(MakeTensorToWrite<int64_t>("bn.num_batches_tracked", {1}, count));
  const std::string path = Path("double.safetensors");
  ASSERT_EQ(WriteSafetensors(path, tensors), absl::OkStatus());
  TrainingState state = ModelWriter::Get(InitialState(graph, 1));
  ASSERT_EQ(LoadWeights(path, graph, state), absl::OkStatus());
  const TensorId weight = graph.weights()[0].tensor;
  EXPECT_EQ(state.values[weight.index()], saved.values[weight.index()]);
}

// All weights, each element with these bits of 16.
std::string WeightsOfHalves(const Graph& graph, const std::string& dtype, uint16_t bits) {
  std::vector<std::vector<uint16_t>> numbers;
  std::vector<TensorToWrite> tensors;
  for (const Weight& weight : graph.weights()) {
    numbers.emplace_back(Volume(graph.tensor(weight.tensor).type.shape), bits);
  }
  for (size_t w = 0; w < numbers.size(); ++w) {
    const Tensor& tensor = graph.tensor(graph.weights()[w].tensor);
    tensors.push_back({tensor.name,
                       dtype,
                       {tensor.type.shape.begin(), tensor.type.shape.end()},
                       std::as_bytes(std::span(numbers[w]))});
  }
  const std::string path = Path("halves.safetensors");
  EXPECT_EQ(WriteSafetensors(path, tensors), absl::OkStatus());
  return path;
}

TEST(CheckpointTest, WeightsOfSixteenBitsConvert) {
  const Graph graph = Model(6);
  for (const auto& [dtype, bits, value] : {std::tuple("F16", uint16_t{0x83ff}, -0x3ffp-24f),
                                           std::tuple("BF16", uint16_t{0x4049}, 3.140625f)}) {
    TrainingState state = ModelWriter::Get(InitialState(graph, 1));
    ASSERT_EQ(LoadWeights(WeightsOfHalves(graph, dtype, bits), graph, state), absl::OkStatus());
    for (const Weight& weight : graph.weights()) {
      ASSERT_EQ(graph.tensor(weight.tensor).type.dtype, DType::kFloat32);
      const auto* first =
          reinterpret_cast<const float*>(state.values[weight.tensor.index()].data());
      EXPECT_EQ(*first, value);
    }
  }
  TrainingState state = ModelWriter::Get(InitialState(graph, 1));
  EXPECT_THAT(std::string(LoadWeights(WeightsOfHalves(graph, "I16", 1), graph, state).message()),
              HasSubstr("is of type I16, wanted F32 or F64 or F16 or BF16"));
}

TEST(CheckpointTest, ListsWhatIsMissingUnexpectedAndOfAnotherShape) {
  const Graph graph = Model(6), wide = Model(7), extra = Model(6, {}, true);
  const std::string path = Path("mismatch.safetensors");
  ASSERT_EQ(SaveWeights(path, graph, RandomState(graph)), absl::OkStatus());
  TrainingState state = ModelWriter::Get(InitialState(wide, 1));
  const TrainingState before = state;
  absl::Status status = LoadWeights(path, wide, state);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("fc1.weight is [6,3], wanted [7,3]"));
  EXPECT_EQ(state, before);
  state = ModelWriter::Get(InitialState(extra, 1));
  status = LoadWeights(path, extra, state);
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing: extra.weight, extra.bias"));
  ASSERT_EQ(SaveWeights(path, extra, RandomState(extra)), absl::OkStatus());
  state = ModelWriter::Get(InitialState(graph, 1));
  status = LoadWeights(path, graph, state);
  EXPECT_THAT(std::string(status.message()), HasSubstr("unexpected: extra.bias, extra.weight"));
}

TEST(CheckpointTest, ResumesOnlyWhatItSaved) {
  const Graph graph = Model(6), adam = Model(6, {.optimizer = TrainingOptions::kAdam});
  const std::string path = Path("only.safetensors");
  ASSERT_EQ(SaveCheckpoint(path, graph, RandomState(graph)), absl::OkStatus());
  EXPECT_THAT(std::string(LoadCheckpoint(path, adam).status().message()),
              HasSubstr("another model, batch size, optimizer or number of microbatches"));
  ASSERT_EQ(SaveWeights(path, graph, RandomState(graph)), absl::OkStatus());
  EXPECT_THAT(std::string(LoadCheckpoint(path, graph).status().message()),
              HasSubstr("not a checkpoint"));
  std::ofstream(path) << "nonsense";
  EXPECT_EQ(LoadCheckpoint(path, graph).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadCheckpoint(Path("absent"), graph).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace partita

#include <map>

#include "graph/support/status_macros.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/data/open_data_source.h"
#include "runtime/train/data/safetensors.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/model_inputs.h"

namespace partita {
namespace {

std::vector<std::string> Samples() {
  const std::string path = Scratch() / "seed.safetensors";
  const std::vector<float> x(24, 0.5F);
  const std::vector<int64_t> y = {0, 2, 1, 1};
  std::vector<std::string> inputs;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 6}, {2, 2, 6}, {4, 1, 2, 3}}) {
    const std::vector<int64_t> labels =
        shape[0] == 4 ? std::vector<int64_t>{4} : std::vector<int64_t>{2, 2};
    const TensorToWrite tensors[] = {MakeTensorToWrite<float>("x", shape, x),
                                     MakeTensorToWrite<int64_t>("y", labels, y)};
    DemandOk(WriteSafetensors(path, tensors, {{"format", "pt"}}), "samples");
    inputs.push_back(FileContent(path));
  }
  return inputs;
}

absl::Status ReadSafetensors(const std::string& input) {
  ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Parse(input, "damaged.safetensors"));
  for (const auto& [name, entry] : file.tensors()) {
    ASSIGN_OR_RETURN(const auto bytes, file.Bytes(name));
    size_t zeros = 0;  // a use of every byte, for the sanitizers
    for (const std::byte byte : bytes) zeros += byte == std::byte{0};
    Demand(zeros <= bytes.size(), "more zeros than bytes");
    (void)file.Floats(name);
    (void)file.Integers(name);
  }
  RETURN_IF_ERROR(file.CheckChecksums());
  ASSIGN_OR_RETURN(const auto source,
                   OpenDataSource({.spec = Scratch().Write("data.safetensors", input)}));
  return ReadSamples(*source);
}

const Graph& SmallModel() {
  static const auto* const kGraph = [] {
    const auto model = MakeZooModel("mlp_tiny", 4);
    DemandOk(model.status(), "mlp_tiny");
    auto graph = BuildTrainingGraph(*model, {});
    DemandOk(graph.status(), "mlp_tiny");
    return new Graph(*std::move(graph));
  }();
  return *kGraph;
}

std::vector<std::string> Checkpoints() {
  auto state = InitialState(SmallModel(), 17);
  DemandOk(state.status(), "a state");
  state->step = 35;
  state->position = {.epoch = 2, .batch = 3};
  state->samples = 64;
  const std::string path = Scratch() / "seed.checkpoint.safetensors";
  std::vector<std::string> files;
  DemandOk(SaveCheckpoint(path, SmallModel(), *state, CheckpointMetric{"top1", 0.5}),
           "a checkpoint");
  files.push_back(FileContent(path));
  DemandOk(SaveWeights(path, SmallModel(), *state), "weights");
  files.push_back(FileContent(path));
  return files;
}

absl::Status ReadCheckpoint(const std::string& input) {
  const std::string path = Scratch().Write("damaged.checkpoint.safetensors", input);
  auto state = InitialState(SmallModel(), 1);
  DemandOk(state.status(), "a state");
  const absl::Status weights = LoadWeights(path, SmallModel(), *state);
  const auto summary = ReadCheckpointSummary(path, SmallModel());
  const auto loaded = LoadCheckpoint(path, SmallModel());
  if (!loaded.ok()) return weights.ok() ? weights : loaded.status();
  DemandOk(weights, "a checkpoint without weights");
  DemandOk(summary.status(), "a checkpoint without summary");
  Demand(loaded->step == summary->step, "a checkpoint of another step than its summary's");
  const std::string again = Scratch() / "again.checkpoint.safetensors";
  DemandOk(SaveCheckpoint(again, SmallModel(), *loaded, summary->metric),
           "a checkpoint that was read");
  const auto twice = LoadCheckpoint(again, SmallModel());
  DemandOk(twice.status(), "a checkpoint that was written");
  Demand(*twice == *loaded, "a checkpoint that was written is read as another one");
  return absl::OkStatus();
}

}  // namespace

std::string MutateSafetensors(Mutator& mutator, const std::string& input,
                              const std::string& other) {
  const auto file = SafetensorsFile::Parse(input, "mutated");
  if (mutator.Below(2) == 0 || !file.ok()) return mutator.MutateBytes(input, other);
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, entry] : file->tensors()) {
    tensors.push_back({name, entry.dtype, entry.shape, *file->Bytes(name)});
  }
  std::map<std::string, std::string> metadata = file->metadata();
  static constexpr const char* kTypes[] = {"F64", "F32", "F16", "BF16", "I64",    "I32",
                                           "I16", "I8",  "U8",  "BOOL", "F8_E4M3"};
  std::vector<std::string> kept(tensors.size());  // bytes of other sizes
  for (size_t n = 1 + mutator.Below(3); n > 0; --n) {
    if (!metadata.empty() && (tensors.empty() || mutator.Below(3) == 0)) {
      auto at = std::next(metadata.begin(), static_cast<int64_t>(mutator.Below(metadata.size())));
      if (mutator.Below(4) == 0) {
        metadata.erase(at);
      } else {
        at->second = mutator.MutateText(at->second, "-1");
      }
      continue;
    }
    if (tensors.empty()) break;
    const size_t k = mutator.Below(tensors.size());
    TensorToWrite& tensor = tensors[k];
    switch (mutator.Below(5)) {
      case 0:
        tensor.dtype = kTypes[mutator.Below(std::size(kTypes))];
        break;
      case 1:
        tensor.name = mutator.MutateText(tensor.name, tensors[0].name);
        break;
      case 2:
        if (!tensor.shape.empty()) tensor.shape.pop_back();
        break;
      case 3:
        kept[k] = mutator.MutateBytes(
            {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()}, other);
        tensor.bytes = std::as_bytes(std::span(kept[k]));
        break;
      default:
        std::swap(tensor.shape, tensors[0].shape);
        std::swap(tensor.bytes, tensors[0].bytes);
        break;
    }
  }
  const std::string path = Scratch() / "mutated.safetensors";
  return WriteSafetensors(path, tensors, metadata).ok() ? FileContent(path)
                                                        : mutator.MutateBytes(input, other);
}

std::vector<FuzzTarget> StateTargets() {
  return {{.name = "safetensors",
           .reads = "safetensors files, as samples",
           .seeds = Samples,
           .mutate = MutateSafetensors,
           .read = ReadSafetensors,
           .inputs = 10'000},
          {.name = "checkpoint",
           .reads = "weights and checkpoints",
           .seeds = Checkpoints,
           .mutate = MutateSafetensors,
           .read = ReadCheckpoint,
           .inputs = 4'000}};
}

}  // namespace partita

#include "runtime/train/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/support/doing.h"
#include "graph/support/status_macros.h"
#include "runtime/train/data/safetensors.h"

namespace partita {
namespace {

constexpr char kOptimizerPrefix[] = "optimizer/";
constexpr size_t kNamesInMessage = 8;

std::string NameInFile(const Tensor& tensor) {
  return tensor.kind == TensorKind::kState ? absl::StrCat(kOptimizerPrefix, tensor.name)
                                           : tensor.name;
}

const char* DtypeInFile(DType dtype) { return dtype == DType::kFloat64 ? "F64" : "F32"; }

std::string FingerprintText(const Graph& graph) {
  return absl::StrFormat("%016x", graph.fingerprint());
}

std::vector<TensorToWrite> TensorsToWrite(const Graph& graph, const TrainingState& state,
                                          bool with_states) {
  std::vector<TensorToWrite> tensors;
  for (const Tensor& tensor : graph.tensors()) {
    if (!LivesBetweenSteps(tensor)) continue;
    if (tensor.kind == TensorKind::kState && !with_states) continue;
    tensors.push_back({NameInFile(tensor),
                       DtypeInFile(tensor.type.dtype),
                       {tensor.type.shape.begin(), tensor.type.shape.end()},
                       state.values[tensor.id.index()]});
  }
  return tensors;
}

// Names for a message, the first few of them.
std::string Listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamesInMessage);
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<int64_t>(shown), ", ");
  if (shown < names.size()) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

// What keeps a file from giving a graph's tensors their values.
class Mismatches {
 public:
  // Halves: 16-bit floats fit, too.
  void Check(const SafetensorsFile& file, const Tensor& tensor, bool halves) {
    const std::string name = NameInFile(tensor);
    const auto found = file.tensors().find(name);
    if (found == file.tensors().end()) {
      missing_.push_back(name);
      return;
    }
    const SafetensorsEntry& entry = found->second;
    const Shape shape(entry.shape.begin(), entry.shape.end());
    if (shape != tensor.type.shape) {
      different_.push_back(
          absl::StrCat(name, " is ", ToString(shape), ", wanted ", ToString(tensor.type.shape)));
    } else if (const auto types = TypesThatFit(halves);
               std::ranges::count(types, entry.dtype) == 0) {
      different_.push_back(absl::StrCat(name, " is of type ", entry.dtype, ", wanted ",
                                        absl::StrJoin(types, " or ")));
    }
  }
  void AddUnexpected(const std::string& name) { unexpected_.push_back(name); }

  absl::Status ToStatus(const std::string& path) const {
    if (missing_.empty() && unexpected_.empty() && different_.empty()) return absl::OkStatus();
    std::string text = absl::StrCat(path, " does not fit the model");
    if (!missing_.empty()) absl::StrAppend(&text, "; missing: ", Listed(missing_));
    if (!unexpected_.empty()) absl::StrAppend(&text, "; unexpected: ", Listed(unexpected_));
    if (!different_.empty()) absl::StrAppend(&text, "; different: ", Listed(different_));
    return absl::InvalidArgumentError(text);
  }

 private:
  static std::span<const char* const> TypesThatFit(bool halves) {
    static constexpr const char* kTypes[] = {"F32", "F64", "F16", "BF16"};
    return std::span(kTypes).first(halves ? 4 : 2);
  }

  std::vector<std::string> missing_, unexpected_, different_;
};

absl::Status Read(const SafetensorsFile& file, const Tensor& tensor,
                  std::vector<std::byte>& values) {
  const std::string name = NameInFile(tensor);
  ASSIGN_OR_RETURN(const SafetensorsEntry* entry, file.Find(name));
  if (entry->dtype == DtypeInFile(tensor.type.dtype)) {
    ASSIGN_OR_RETURN(const auto bytes, file.Bytes(name));
    std::copy(bytes.begin(), bytes.end(), values.begin());
    return file.Check();
  }
  ASSIGN_OR_RETURN(const std::vector<float> numbers, file.Floats(name));
  if (tensor.type.dtype == DType::kFloat32) {
    std::memcpy(values.data(), numbers.data(), values.size());
  } else {
    std::copy(numbers.begin(), numbers.end(), reinterpret_cast<double*>(values.data()));
  }
  return absl::OkStatus();
}

// Weights, and states if wanted. `state` is untouched on errors.
absl::Status LoadValues(const SafetensorsFile& file, const Graph& graph, bool with_states,
                        TrainingState& state) {
  Mismatches mismatches;
  std::set<std::string> known;
  for (const Tensor& tensor : graph.tensors()) {
    if (!LivesBetweenSteps(tensor)) continue;
    known.insert(NameInFile(tensor));
    if (tensor.kind == TensorKind::kWeight || with_states)
      mismatches.Check(file, tensor, !with_states);
  }
  for (const auto& [name, entry] : file.tensors()) {
    if (known.contains(name) || absl::EndsWith(name, "num_batches_tracked")) continue;
    if (absl::StartsWith(name, kOptimizerPrefix) && !with_states) continue;
    mismatches.AddUnexpected(name);
  }
  RETURN_IF_ERROR(mismatches.ToStatus(file.path()));
  for (const Tensor& tensor : graph.tensors()) {
    if (!LivesBetweenSteps(tensor) || (tensor.kind == TensorKind::kState && !with_states)) continue;
    RETURN_IF_ERROR(Read(file, tensor, state.values[tensor.id.index()]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MetadataOf(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found != file.metadata().end()) return found->second;
  return absl::InvalidArgumentError(absl::StrCat(
      file.path(), ": no '", key,
      "' in the metadata: not a checkpoint; weights alone can be loaded, not resumed from"));
}

absl::Status BadMetadata(const SafetensorsFile& file, const std::string& key,
                         const std::string& wanted) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": metadata '", key, "' is '",
                                                 file.metadata().at(key), "', wanted ", wanted));
}

template <class Number>
absl::Status ReadNumber(const SafetensorsFile& file, const std::string& key, Number* number) {
  ASSIGN_OR_RETURN(const std::string text, MetadataOf(file, key));
  if (absl::SimpleAtoi(text, number) && *number >= 0) return absl::OkStatus();
  return BadMetadata(file, key, "a number from 0 on");
}

// Every step takes the next batch, and an epoch is all batches that its samples fill; so two of
// step, position and samples say the third.
absl::Status CheckPosition(const SafetensorsFile& file, const Graph& graph,
                           const TrainingState& state) {
  const auto& [epoch, batch] = state.position;
  if (state.samples == 0) {  // unknown
    if (epoch <= state.step && batch <= state.step) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": found batch ", batch,
                                                   " of epoch ", epoch, " after step ", state.step,
                                                   "; wanted at most the step's number of both"));
  }
  const int64_t per_epoch = state.samples / graph.batch();
  if (per_epoch == 0) {
    return BadMetadata(file, "partita.samples",
                       absl::StrCat("at least the ", graph.batch(), " of a batch"));
  }
  if (epoch == state.step / per_epoch && batch == state.step % per_epoch) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": found batch ", batch, " of epoch ", epoch, " after step ",
                   state.step, "; of ", state.samples, " samples in batches of ", graph.batch(),
                   " wanted batch ", state.step % per_epoch, " of epoch ", state.step / per_epoch));
}

absl::Status CheckFingerprint(const SafetensorsFile& file, const Graph& graph) {
  const auto found = file.metadata().find("partita.fingerprint");
  if (found != file.metadata().end() && found->second == FingerprintText(graph)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), " is a checkpoint of training graph ",
                   found == file.metadata().end() ? "(none)" : found->second, "; this one is ",
                   FingerprintText(graph),
                   ": another model, batch size, optimizer or number of microbatches; load its "
                   "weights instead of resuming"));
}

// Step, position and seed of a checkpoint of this graph.
absl::Status ReadPosition(const SafetensorsFile& file, const Graph& graph, TrainingState& state) {
  RETURN_IF_ERROR(ReadNumber(file, "partita.step", &state.step));
  RETURN_IF_ERROR(CheckFingerprint(file, graph));
  RETURN_IF_ERROR(ReadNumber(file, "partita.epoch", &state.position.epoch));
  RETURN_IF_ERROR(ReadNumber(file, "partita.batch", &state.position.batch));
  if (file.metadata().contains("partita.samples")) {
    RETURN_IF_ERROR(ReadNumber(file, "partita.samples", &state.samples));
  }
  RETURN_IF_ERROR(ReadNumber(file, "partita.seed", &state.seed));
  return CheckPosition(file, graph, state);
}

// Nothing if it has none.
absl::StatusOr<std::optional<CheckpointMetric>> ReadMetric(const SafetensorsFile& file) {
  const auto name = file.metadata().find("partita.metric");
  if (name == file.metadata().end()) return std::nullopt;
  CheckpointMetric metric{.name = name->second};
  ASSIGN_OR_RETURN(const std::string value, MetadataOf(file, "partita.metric_value"));
  if (absl::SimpleAtod(value, &metric.value)) return metric;
  return BadMetadata(file, "partita.metric_value", "a number");
}

}  // namespace

absl::Status SaveWeights(const std::string& path, const Graph& graph, const TrainingState& state) {
  return WriteSafetensors(path, TensorsToWrite(graph, state, false), {{"format", "pt"}});
}

absl::Status SaveCheckpoint(const std::string& path, const Graph& graph, const TrainingState& state,
                            const std::optional<CheckpointMetric>& metric) {
  const Doing doing("writing checkpoint", path);
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"partita.step", absl::StrCat(state.step)},
      {"partita.epoch", absl::StrCat(state.position.epoch)},
      {"partita.batch", absl::StrCat(state.position.batch)},
      {"partita.samples", absl::StrCat(state.samples)},
      {"partita.seed", absl::StrCat(state.seed)},
      {"partita.fingerprint", FingerprintText(graph)}};
  if (metric.has_value()) {
    metadata["partita.metric"] = metric->name;
    metadata["partita.metric_value"] = absl::StrFormat("%.17g", metric->value);
  }
  return WriteSafetensors(path, TensorsToWrite(graph, state, true), metadata);
}

absl::Status LoadWeights(const std::string& path, const Graph& graph, TrainingState& state) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  RETURN_IF_ERROR(file.CheckChecksums());
  return LoadValues(file, graph, false, state);
}

absl::StatusOr<TrainingState> LoadCheckpoint(const std::string& path, const Graph& graph) {
  const Doing doing("reading checkpoint", path);
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  RETURN_IF_ERROR(file.CheckChecksums());
  ASSIGN_OR_RETURN(TrainingState state, InitialState(graph, 0));
  RETURN_IF_ERROR(ReadPosition(file, graph, state));
  RETURN_IF_ERROR(ReadMetric(file).status());
  RETURN_IF_ERROR(LoadValues(file, graph, true, state));
  return state;
}

absl::StatusOr<CheckpointSummary> ReadCheckpointSummary(const std::string& path,
                                                        const Graph& graph) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  TrainingState state;
  RETURN_IF_ERROR(ReadPosition(file, graph, state));
  ASSIGN_OR_RETURN(auto metric, ReadMetric(file));
  return CheckpointSummary{.step = state.step, .metric = std::move(metric)};
}

}  // namespace partita

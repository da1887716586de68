#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/train/training_state.h"

// Weights and checkpoints as safetensors files. A weight is stored under the model's own parameter
// name in its own shape, so PyTorch reads the file as a state dict. A checkpoint has in addition
// the optimizer's states, as "optimizer/NAME.momentum" and so on, and in the metadata what else a
// run resumes from: partita.step, partita.epoch and partita.batch (of the next batch),
// partita.samples (of the data), partita.seed, partita.fingerprint (of the training graph, thus of
// model, batch size and optimizer), and where one was taken partita.metric and
// partita.metric_value. Files are replaced whole or not at all, and have checksums, which are
// compared at loading; files without any load too.

namespace partita {

// Metric by which a state is judged.
struct CheckpointMetric {
  std::string name;  // name of the metric
  double value = 0;
  friend bool operator==(const CheckpointMetric&, const CheckpointMetric&) = default;
};

// Errors as WriteSafetensors.
absl::Status SaveWeights(const std::string& path, const Graph& graph, const TrainingState& state);
absl::Status SaveCheckpoint(const std::string& path, const Graph& graph, const TrainingState& state,
                            const std::optional<CheckpointMetric>& metric = {});

// Sets the weights of `state` from a file of either kind, whatever wrote it; all else stays. Every
// weight of the graph must be there in its shape and as float32, float64, float16 or bfloat16, which
// are converted to the weight's float32 or float64, and nothing else but optimizer states and
// PyTorch's "num_batches_tracked": InvalidArgument lists what is missing, unexpected or of another
// shape, or what is damaged. Otherwise as SafetensorsFile::Open.
absl::Status LoadWeights(const std::string& path, const Graph& graph, TrainingState& state);

// The state that SaveCheckpoint was given; checkpoints that do not say how many samples their data
// had are of an unknown number. InvalidArgument for a file without optimizer states or position, or
// of another model, batch size or optimizer, for one that is damaged or whose values are neither
// float32 nor float64, and for a step, epoch and batch that no run of such data has.
absl::StatusOr<TrainingState> LoadCheckpoint(const std::string& path, const Graph& graph);

// Facts in a checkpoint's header, for less than reading all of it. Errors as LoadCheckpoint, but
// for those of values.
struct CheckpointSummary {
  int64_t step = 0;
  std::optional<CheckpointMetric> metric;
};
absl::StatusOr<CheckpointSummary> ReadCheckpointSummary(const std::string& path,
                                                        const Graph& graph);

}  // namespace partita

#include "runtime/train/training_state.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "graph/initial_values.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/support/finite.h"

namespace partita {

bool LivesBetweenSteps(const Tensor& tensor) {
  return tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kState;
}

absl::StatusOr<TrainingState> InitialState(const Graph& graph, uint64_t seed) {
  TrainingState state;
  state.seed = seed;
  state.values.resize(graph.tensors().size());
  for (const Tensor& tensor : graph.tensors()) {
    if (!LivesBetweenSteps(tensor)) continue;
    state.values[tensor.id.index()].resize(static_cast<size_t>(tensor.type.bytes()));
  }
  for (const Weight& weight : graph.weights()) {
    const Tensor& tensor = graph.tensor(weight.tensor);
    std::vector<std::byte>& bytes = state.values[tensor.id.index()];
    const std::vector<float> values = InitialValues(tensor, weight, seed);
    if (tensor.type.dtype == DType::kFloat32) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    } else if (tensor.type.dtype == DType::kFloat64) {
      std::copy(values.begin(), values.end(), reinterpret_cast<double*>(bytes.data()));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("weight '", tensor.name, "' is ",
                                                     ToString(tensor.type),
                                                     "; only floating-point weights are trained"));
    }
  }
  return state;
}

std::vector<TensorId> UpdatedTensors(const Graph& graph) {
  std::vector<TensorId> tensors;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::kNext) tensors.push_back(tensor.of);
  }
  return tensors;
}

absl::Status CheckFinite(const Graph& graph, const TrainingState& state) {
  for (TensorId id : UpdatedTensors(graph)) {
    const Tensor& tensor = graph.tensor(id);
    const std::vector<std::byte>& bytes = state.values[id.index()];
    const auto values = [&bytes]<class T>(T) {
      return std::span(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
    };
    const int64_t at = tensor.type.dtype == DType::kFloat32   ? FirstNotFinite(values(float{}))
                       : tensor.type.dtype == DType::kFloat64 ? FirstNotFinite(values(double{}))
                                                              : -1;
    if (at < 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", tensor.name, "' ", ToString(tensor.type),
                                                   " is NaN or infinite at element ", at,
                                                   " (row-major, from 0)"));
  }
  return absl::OkStatus();
}

absl::Status WriteValues(const Graph& graph, const TrainingState& state, Executor& executor) {
  CHECK_EQ(state.values.size(), graph.tensors().size());
  for (const Tensor& tensor : graph.tensors()) {
    if (!LivesBetweenSteps(tensor)) continue;
    const auto& bytes = state.values[tensor.id.index()];
    const absl::Status status = executor.WriteTensor(tensor.id, {tensor.type.dtype, bytes});
    // What no operator reads may live nowhere.
    if (absl::IsNotFound(status) && graph.consumers(tensor.id).empty()) continue;
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status ReadValues(const Graph& graph, Executor& executor, TrainingState& state) {
  CHECK_EQ(state.values.size(), graph.tensors().size());
  for (const Tensor& tensor : graph.tensors()) {
    if (!LivesBetweenSteps(tensor)) continue;
    RETURN_IF_ERROR(executor.ReadTensor(tensor.id, state.values[tensor.id.index()]));
  }
  return absl::OkStatus();
}

}  // namespace partita

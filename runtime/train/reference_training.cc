#include "runtime/train/reference_training.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/train/reference/reference_run.h"
#include "runtime/train/training_state.h"

namespace partita {
namespace {

// What the first step is compared by: the logits and the gradients of weights.
std::vector<TensorId> FirstStepTensors(const Graph& graph) {
  std::vector<TensorId> ids = {graph.only(TensorRole::kLogits)};
  for (const Tensor& tensor : graph.tensors()) {
    if (!absl::StartsWith(tensor.name, "d:")) continue;
    for (const Weight& weight : graph.weights()) {
      if (tensor.name == absl::StrCat("d:", graph.tensor(weight.tensor).name)) {
        ids.push_back(tensor.id);
      }
    }
  }
  return ids;
}

std::vector<double> Numbers(const TensorType& type, const std::vector<std::byte>& bytes) {
  const auto count = static_cast<size_t>(Volume(type.shape));
  if (type.dtype == DType::kFloat32) {
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    return {values, values + count};
  }
  const auto* values = reinterpret_cast<const double*>(bytes.data());
  return {values, values + count};
}

absl::StatusOr<std::vector<double>> ValueOf(const Graph& graph, TensorId id, Executor& executor) {
  const Tensor& tensor = graph.tensor(id);
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.type.bytes()));
  if (LivesBetweenSteps(tensor)) {
    RETURN_IF_ERROR(executor.ReadTensor(id, bytes));
    return Numbers(tensor.type, bytes);
  }
  if (const auto output = OutputIndex(executor.program().tasks, id)) {
    RETURN_IF_ERROR(executor.ReadOutput(*output, bytes));
    return Numbers(tensor.type, bytes);
  }
  return absl::NotFoundError(absl::StrCat("tensor '", tensor.name, "' does not reach the host"));
}

}  // namespace

absl::StatusOr<RunValues> TrainSplitOnReference(const Graph& graph,
                                                const ReferenceFolder& reference,
                                                const Strategy& strategy, PartitionOptions options,
                                                const ExecutorSetup& setup) {
  options.extra_outputs = FirstStepTensors(graph);
  ASSIGN_OR_RETURN(PlannedStep step, CanonicalStep(graph, strategy, options));
  ASSIGN_OR_RETURN(const auto executor, OpenExecutor(graph, std::move(step), setup));
  ASSIGN_OR_RETURN(const TrainingState start, InitialState(graph, 0));
  RETURN_IF_ERROR(WriteValues(graph, start, *executor));
  const auto loss = OutputIndex(executor->program().tasks, graph.only(TensorRole::kLoss));
  CHECK(loss.has_value());
  auto run_step = [&](std::span<const float> x, std::span<const int32_t> labels,
                      const StepArguments& arguments) -> absl::StatusOr<double> {
    // Word numbers: whole, and small enough for float to hold them.
    HostTensor samples = HostTensorOf(x);
    std::vector<int32_t> integers;
    if (graph.WholeType(TensorRole::kSamples).dtype == DType::kInt32) {
      integers.assign(x.begin(), x.end());
      samples = HostTensorOf(integers);
    }
    ASSIGN_OR_RETURN(const StepResult result,
                     executor->Step(samples, HostTensorOf(labels), arguments));
    RETURN_IF_ERROR(executor->CheckCopies());
    return result.outputs[*loss];
  };
  auto value = [&](TensorId id) { return ValueOf(graph, id, *executor); };
  return TrainOnReference(graph, reference, {.step = run_step, .value = value});
}

absl::StatusOr<ByTensor> RoundingOfReference(const Graph& graph, const ReferenceFolder& reference,
                                             std::shared_ptr<const Backend> noisy) {
  constexpr int kTrainings = 8;
  constexpr double kBeyondThose = 2;
  ExecutorSetup setup;
  setup.devices = VirtualDevices(std::move(noisy), 1);
  setup.communicator = CommunicatorBetween(setup.devices);
  ByTensor rounding;
  for (int k = 0; k < kTrainings; ++k) {
    ASSIGN_OR_RETURN(const RunValues got,
                     TrainSplitOnReference(graph, reference, SingleDevice(graph, DeviceId(0)),
                                           {.devices = 1}, setup));
    for (const auto& [name, want] : reference.expected) {
      const auto found = got.find(name);
      if (found == got.end() || found->second.size() != want.size()) continue;
      double& most = rounding[name];
      for (size_t i = 0; i < want.size(); ++i) {
        most = std::max(most, kBeyondThose * std::abs(found->second[i] - want[i]));
      }
    }
  }
  return rounding;
}

}  // namespace partita

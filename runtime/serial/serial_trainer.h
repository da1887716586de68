#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"
#include "runtime/serial/dense_tensor.h"

namespace partita {

// The serial model that every plan is proven equal to: runs a graph operator by operator, unsplit,
// on whole tensors, with the reference kernels, on the calling thread. Works on float, double and
// ring graphs, trained or forward only. Not thread safe.
class SerialTrainer {
 public:
  // Weights start as InitialValues says for `seed` (float and double graphs; zeros in the ring),
  // states at 0. Copies what it needs of the graph.
  explicit SerialTrainer(const Graph& graph, uint64_t seed = 0);

  const Graph& graph() const { return graph_; }

  // Value of any tensor: inputs and labels as set, weights and states current (after a step:
  // updated), all others as computed by the last step.
  const DenseTensor& value(TensorId id) const { return values_[id.index()]; }
  // Mutable value, to set inputs, labels, weights and states.
  DenseTensor& mutable_value(TensorId id) { return values_[id.index()]; }
  // The tensor of that name; NotFound.
  absl::StatusOr<TensorId> Find(absl::string_view name) const;
  // Sets a tensor from numbers, converted to its type; in the ring they are integers. Sizes must
  // agree (InvalidArgument).
  absl::Status Set(TensorId id, std::span<const float> values);
  // Sets all inputs and labels of a batch: the rows of each, one after another; inputs of integers
  // from whole numbers. Sizes must agree (InvalidArgument); labels are ignored where the graph has none.
  absl::Status SetBatch(std::span<const float> x, std::span<const int32_t> labels);
  // Values of the inputs of a role, one after another: the whole batch as an executor takes it.
  std::vector<std::byte> BatchOf(TensorRole role) const;
  // Elements of any tensor as numbers (ring: as signed integers).
  std::vector<double> Get(TensorId id) const;

  // Ring graphs: weights, states and inputs become random words, labels random classes, other
  // integers what Graph::IndexLimitOf allows. Each tensor has a stream of its own name, so graphs with tensors in common get the same values.
  void RandomizeRing(uint64_t seed);

  // Sets a stop flag: when it becomes true, Step ends before its next operator: Cancelled, and the
  // results of the step are invalid. Null: never. Outlives the trainer.
  void StopWhen(const std::atomic<bool>* stop) { stop_ = stop; }

  // Runs every operator once, then gives weights and states their next values.
  absl::Status Step(const StepArguments& arguments);
  // The same on this batch; returns the loss before the update.
  absl::StatusOr<double> Step(std::span<const float> x, std::span<const int32_t> labels,
                              const StepArguments& arguments);
  // Loss of the last step (training graphs; not in the ring).
  double loss() const { return Get(graph_.only(TensorRole::kLoss))[0]; }

 private:
  // One operator, ready to run: unsplit, as one part.
  struct Launch {
    KernelSignature signature;
    std::vector<Box> inputs, outputs;  // boxes of its tensors that it reads and writes
    uint64_t operator_key = 0;
  };
  Launch MakeLaunch(const Operator& op) const;
  absl::Status Run(const Operator& op, const Launch& launch, const StepArguments& arguments);

  Graph graph_;
  std::vector<Launch> launches_;     // indexed by operator
  std::vector<DenseTensor> values_;  // indexed by tensor
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace partita

#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/task/task_graph.h"
#include "runtime/backend/kernel_arguments.h"
#include "runtime/serial/serial_trainer.h"

namespace partita {

// Elements of a ring.
enum class RingValues : uint8_t {
  kRandom,  // any 64 bits
  kSmall,   // -1, 0, 1: equal elements and zeros everywhere
};

// One way to run the steps of a task graph: what SerialRun compares.
class SplitRun {
 public:
  using Inputs = std::vector<std::pair<TensorId, DenseTensor>>;

  virtual ~SplitRun() = default;
  // Every piece of a weight or state becomes its part of `value`.
  virtual absl::Status SetPersistent(TensorId id, const DenseTensor& value) = 0;
  // Runs one step. `inputs`: what the loader delivers for the input, the labels and the seed.
  virtual absl::Status RunStep(const Inputs& inputs, const StepArguments& arguments) = 0;
  // Values after the last step: a host output, and a weight or state put together from its pieces.
  // DataLoss if copies of a piece differ.
  virtual absl::StatusOr<DenseTensor> Output(TensorId id) = 0;
  virtual absl::StatusOr<DenseTensor> Persistent(TensorId id) = 0;
};

// Outcome of some steps of a training graph that runs whole: the values to start from, the
// batches, and every persistent tensor and host value after each step. Weights, states and inputs
// are random; in floating point numbers in [-1, 1).
class SerialRun {
 public:
  SerialRun(const Graph& graph, int steps, RingValues values, std::mt19937_64& random);

  const Graph& graph() const { return graph_; }

  // Runs a task graph of the same graph from the same values and compares every step bit for bit.
  // DataLoss names the first tensor that differs, and the step; other errors come from the run.
  absl::Status Compare(SplitRun& run) const;
  // The same in the interpreter. With `random`, the last step runs in a random order that keeps
  // only the dependencies.
  absl::Status Compare(const TaskGraph& tasks, std::mt19937_64* random = nullptr) const;

 private:
  struct Step {
    StepArguments arguments;
    SplitRun::Inputs inputs;
    std::vector<std::pair<TensorId, DenseTensor>> outputs;     // loss, correct
    std::vector<std::pair<TensorId, DenseTensor>> persistent;  // after the step
  };
  DenseTensor RandomValue(const Tensor& tensor, RingValues values, std::mt19937_64& random) const;

  const Graph& graph_;
  std::vector<std::pair<TensorId, DenseTensor>> start_;
  std::vector<Step> steps_;
};

}  // namespace partita

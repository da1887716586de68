#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/task/task_graph.h"
#include "runtime/backend/kernel_arguments.h"
#include "runtime/serial/serial_trainer.h"

namespace partita {

// What a ring's elements are.
enum class RingValues : uint8_t {
  kRandom,  // any 64 bits
  kSmall,   // -1, 0, 1: equal elements and zeros everywhere
};

// What some steps of a training graph give when it runs whole: the values to start from, the
// batches, and every persistent tensor and host value after each step. Weights, states and inputs
// are random; in floating point numbers in [-1, 1).
class SerialRun {
 public:
  SerialRun(const Graph& graph, int steps, RingValues values, std::mt19937_64& random);

  const Graph& graph() const { return graph_; }

  // Runs a task graph of the same graph from the same values and compares every step bit for bit.
  // With `random`, the last step runs in a random order that keeps only the dependencies. DataLoss
  // names the first tensor that differs, and the step; other errors come from the interpreter.
  absl::Status Compare(const TaskGraph& tasks, std::mt19937_64* random = nullptr) const;

 private:
  struct Step {
    StepArguments arguments;
    std::vector<std::pair<TensorId, DenseTensor>> inputs;
    std::vector<std::pair<TensorId, DenseTensor>> outputs;     // loss, correct
    std::vector<std::pair<TensorId, DenseTensor>> persistent;  // after the step
  };
  DenseTensor RandomValue(const Tensor& tensor, RingValues values, std::mt19937_64& random) const;

  const Graph& graph_;
  std::vector<std::pair<TensorId, DenseTensor>> start_;
  std::vector<Step> steps_;
};

}  // namespace partita

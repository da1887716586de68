#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/task/task_graph.h"
#include "graph/verify/probe_grid.h"

namespace partita {

// Symbolic value of an element of a buffer: which element of which tensor, and the sum (or maximum)
// of which terms. A set of terms is the sum of their random codes modulo 2^64, so a term that is
// added twice or left out shows.
struct SymbolicValue {
  TensorId tensor = kNoTensor;
  int64_t probe = -1;
  uint64_t terms = 0;
  friend bool operator==(const SymbolicValue&, const SymbolicValue&) = default;
};

// Values that a task graph has to compute, for each tensor of the graph.
struct ExpectedValues {
  std::vector<ProbeGrid> grids;               // indexed by tensor
  std::vector<std::vector<uint64_t>> values;  // indexed by tensor, by probe: all its terms

  uint64_t of(TensorId tensor, int64_t probe) const {
    return values[tensor.index()][static_cast<size_t>(probe)];
  }
};

// A compute task's part in the sums that its results are. Filled in by the verifier; one element
// for each input and output of the kernel.
struct ComputeTerm {
  struct Output {
    TensorId tensor = kNoTensor;  // of which it is a piece
    uint64_t code = 0;
  };
  std::vector<TensorId> inputs;
  std::vector<Output> outputs;
};

// Runs tasks one after another on symbolic values: moves and communication carry them around, and
// every input of a compute task must hold, at each probe of its box, exactly the expected value.
class SymbolicStep {
 public:
  SymbolicStep(const Graph& graph, const TaskGraph& tasks, const ExpectedValues& expected);

  // Persistent buffers hold their tensors' values.
  void Begin();
  // Internal, naming the task and the tensor, if it reads what is not there. `term`: of compute
  // tasks.
  absl::Status Run(const Task& task, const ComputeTerm& term);
  // Internal if a probe of the box (of a dense buffer of exactly that box) is not the expected
  // value of the tensor. `reader` is for the message.
  absl::Status CheckHolds(TensorId tensor, BufferId buffer, const Box& box,
                          const std::string& reader) const;

 private:
  using Memory = absl::btree_map<int64_t, SymbolicValue>;  // keyed by element
  // Values of a range, ascending by element, which counts from the range's start.
  using Values = std::vector<std::pair<int64_t, SymbolicValue>>;
  Memory& memory(BufferId id) { return memory_[id.index()]; }
  const Memory& memory(BufferId id) const { return memory_[id.index()]; }

  absl::Status RunBody(const Task& task, const ComputeTask& body, const ComputeTerm& term);
  absl::Status RunBody(const Task& task, const MoveTask& body, const ComputeTerm&);
  absl::Status RunBody(const Task& task, const LoadTask& body, const ComputeTerm&);
  absl::Status RunBody(const Task& task, const CollectiveTask& body, const ComputeTerm&);
  absl::Status RunBody(const Task& task, const TransferTask& body, const ComputeTerm&);
  absl::Status RunMove(const Task& task, const Move& move);
  absl::Status Reduce(const Task& task, const CollectiveTask& body, size_t slice);
  // All-gather and all-to-all.
  void Exchange(const CollectiveTask& body);

  // Fills a buffer with a tensor's values over its whole box.
  void FillWhole(BufferId id, TensorId tensor, uint64_t code, bool use_expected);
  // Forgets what lies in the region of a window, or in a range.
  void Forget(const BufferWindow& window, const Box& region);
  void Forget(const Slice& slice);
  // Appends the contents of a range.
  void Extract(const Slice& slice, Values& values) const;
  void Insert(const Slice& slice, std::span<const std::pair<int64_t, SymbolicValue>> values);
  absl::Status Wrong(const Task& task, TensorId tensor, const std::string& what) const;

  const Graph& graph_;
  const TaskGraph& tasks_;
  const ExpectedValues& expected_;
  std::vector<Memory> memory_;  // indexed by buffer
};

}  // namespace partita

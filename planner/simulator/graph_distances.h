#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/task/task_graph.h"

namespace partita {

// Distances of a graph's operators and tensors from its end. A *subject* is one of them: operator k
// has number k, tensor k the number of operators + k. Tasks are of the subject that their key names.
class GraphDistances {
 public:
  // Keeps nothing of the graph.
  explicit GraphDistances(const Graph& graph);

  int32_t subjects() const { return subjects_; }
  int32_t SubjectOf(OpId op) const { return op.value(); }
  int32_t SubjectOf(TensorId tensor) const { return operators() + tensor.value(); }
  int32_t SubjectOf(const TaskKey& key) const {
    return key.of_tensor ? SubjectOf(TensorId(key.subject)) : SubjectOf(OpId(key.subject));
  }
  // The largest sum of lengths over the subjects of a chain behind each subject, from operators to
  // what they make and from tensors to what reads them: 0 for a tensor that nobody reads. Both
  // indexed by subject.
  std::vector<int64_t> Behind(std::span<const int64_t> lengths) const;
  // Whether it is a tensor that updates of weights read, and nothing else does.
  bool IsForUpdates(int32_t subject) const { return is_for_updates_[static_cast<size_t>(subject)]; }

 private:
  int32_t operators() const { return static_cast<int32_t>(inputs_.size()); }

  int32_t subjects_ = 0;
  // Subjects of the tensors that each operator reads and makes, indexed by OpId.
  std::vector<std::vector<int32_t>> inputs_, outputs_;
  std::vector<bool> is_for_updates_;  // indexed by subject
};

}  // namespace partita

#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/task/task_graph.h"

namespace partita {

// Distances of a graph's operators and tensors from its end. A *subject* is one of them: operator k
// has number k, tensor k the number of operators + k. Tasks are of the subject that their key names.
class GraphDistances {
 public:
  explicit GraphDistances(const Graph& graph);

  int32_t SubjectOf(OpId op) const { return op.value(); }
  int32_t SubjectOf(TensorId tensor) const { return operators_ + tensor.value(); }
  int32_t SubjectOf(const TaskKey& key) const {
    return key.of_tensor ? SubjectOf(TensorId(key.subject)) : SubjectOf(OpId(key.subject));
  }
  // Hops from each subject to the farthest end of the graph, from operators to what they make and
  // from tensors to what reads them: 0 for a tensor that nobody reads. Indexed by subject.
  const std::vector<int32_t>& hops() const { return hops_; }

 private:
  int32_t operators_ = 0;
  std::vector<int32_t> hops_;
};

}  // namespace partita

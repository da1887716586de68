#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/task/task_graph.h"

namespace partita {

// Buffers may keep the backend's native format between kernels. A buffer becomes native if it holds
// float32 of rank 4 and everything that touches it can: kernels of operators that say so
// (InputMayBeNative, OutputMayBeNative), copies and sums between equal boxes, and collectives and
// transfers of whole equal pieces between devices that share the format. What an operator needs in
// one format with another buffer decides with it. Everything else stays dense, so data change
// format only inside kernels, and where they are converted anyway (kReorder), whose two sides are
// free.

// Constraints of tasks on the formats of their buffers.
struct FormatRules {
  std::vector<std::pair<BufferId, BufferId>> equal;  // pairs of buffers that have one format
  std::vector<BufferId> dense;

  // `class_of_device`: as PartitionOptions has it.
  void Add(const TaskGraph& graph, const Task& task, std::span<const int32_t> class_of_device = {});
};

// Whether any backend could hold the buffer in a format of its own.
bool MayBeNative(const Buffer& buffer);

// Sets of buffers that must have one format, with a veto on native.
class FormatSets {
 public:
  explicit FormatSets(size_t buffers);
  void Join(BufferId a, BufferId b);
  void MakeDense(BufferId a) { dense_[Find(a.index())] = true; }
  bool IsDense(BufferId a) { return dense_[Find(a.index())]; }

 private:
  size_t Find(size_t a);

  std::vector<size_t> parent_;
  std::vector<bool> dense_;
};

}  // namespace partita

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "graph/graph.h"
#include "graph/partition/formats.h"
#include "graph/partition/fragment_cache.h"
#include "graph/task/task_graph.h"

namespace partita {

// Joins the fragments of a step: gives every slot its buffer in the whole task graph, fuses kernels
// and chooses formats. What it holds is meant to be reused from step to step.
//
// Fusion, of a kernel's only result with its only reader on the same device: where a ReLU reads it
// and the kernel's operator can apply it before storing (CanFuseRelu), the ReLU's kernel goes and
// the other writes the ReLU's result. Where a weight's update reads it and the operator can hand it
// over (CanFuseUpdate), the operator's kernel goes and the update's does both: it comes after all
// that read the old weight. A kernel that control edges hold back or name does not go.
class FragmentLinker {
 public:
  // Outcome of fusion for an operator's kernel.
  enum class Role : uint8_t {
    kAsItIs,
    kTakesRelu,
    kInProducer,  // a ReLU that is done by what makes its operand: no kernel
    kTakesGradient,
    kInUpdate,  // a gradient that is done by its update: no kernel
  };
  // The cache outlives the link.
  explicit FragmentLinker(const FragmentCache& cache);

  void Link(const StepFragments& step);

  // Number of buffers of the step linked last. Buffers are numbered as in the task graph.
  int32_t buffers() const { return buffers_; }
  std::span<const BufferId> OperatorSlots(OpId id) const {
    return Slots(operator_begin_[id.index()]);
  }
  std::span<const BufferId> TensorSlots(TensorId id, int32_t group) const {
    return Slots(RangeOf(id, group));
  }
  Role RoleOf(OpId id, size_t task) const { return roles_[role_begin_[id.index()] + task]; }
  bool IsNative(BufferId id) const { return !native_.empty() && native_[id.index()]; }
  const std::vector<HostOutput>& outputs() const { return outputs_; }
  // Control edges: (task, earlier task that must have ended), sorted; tasks are numbered as in the
  // task graph.
  const std::vector<std::pair<TaskId, TaskId>>& after() const { return after_; }

  // Whether the operator's kernels stay as its fragment has them.
  bool IsPlain(const StepFragments& step, OpId id) const;
  // Kernels of an operator that is not plain, with fusion and formats done, over the operator's
  // slots and after them those of the operator whose gradients they take, if any; the buffers of
  // these slots; and the variant, which decides all of it but the numbers of the buffers.
  using Variant = absl::InlinedVector<int32_t, 48>;
  TaskGraph Resolve(const StepFragments& step, OpId id) const;
  std::vector<BufferId> ResolvedSlots(OpId id) const;
  Variant VariantOf(const StepFragments& step, OpId id) const;

 private:
  // An operator that may be fused with the producer of what it reads.
  struct FusionPair {
    TensorId tensor;
    OpId producer, reader;
    int32_t consumer = 0;  // the reader's place among the tensor's consumers
  };
  // Slots of a fragment: their start in slots_, their number, and the first own buffer.
  struct Range {
    int32_t begin = 0, size = 0, own = 0;
  };

  std::span<const BufferId> Slots(const Range& range) const {
    return std::span(slots_).subspan(static_cast<size_t>(range.begin),
                                     static_cast<size_t>(range.size));
  }
  const Range& RangeOf(TensorId id, int32_t group) const {
    return group_begin_[static_cast<size_t>(first_group_[id.index()] + group)];
  }
  Range& RangeOf(TensorId id, int32_t group) {
    return group_begin_[static_cast<size_t>(first_group_[id.index()] + group)];
  }

  void FindFusionPairs();
  void LinkPersistent(const StepFragments& step);
  void LinkTensor(const StepFragments& step, const Tensor& tensor, int32_t group);
  void AddPieceSlots(const StepFragments& step, const Tensor& tensor);
  void LinkOperator(const StepFragments& step, OpId id);
  void AddPersistentSlots(const StepFragments& step, TensorId id);
  void AddOwnSlots(const Fragment& fragment, Range& range);
  void FindFusionPair(const Operator& reader, size_t input);
  void Fuse(const StepFragments& step);
  bool MayVanish(const Operator& op) const;
  void ChooseFormats(const StepFragments& step);
  void LinkEdges(const StepFragments& step);
  void NumberTasks(const StepFragments& step);
  const std::vector<std::pair<DeviceId, TaskId>>& TasksOf(const StepFragments& step, OpId id);
  bool TakesGradients(OpId id) const { return takes_gradients_[id.index()]; }
  // The gradient's task that a kTakesGradient takes.
  TaskId GradientFor(OpId id, size_t task) const {
    return gradients_.at(role_begin_[id.index()] + task);
  }

  const FragmentCache& cache_;
  const Graph& graph_;
  std::vector<FusionPair> fusion_pairs_;
  std::vector<OpId> gradient_of_;  // indexed by OpId of an update: operator whose gradients it may
                                   // take, or kNoOp

  int32_t buffers_ = 0;
  std::vector<BufferId> slots_;
  std::vector<Range> operator_begin_;      // indexed by OpId
  std::vector<Range> group_begin_;         // indexed by tensor and group
  std::vector<int32_t> first_group_;       // indexed by TensorId: place of its first in that
  std::vector<int32_t> persistent_begin_;  // indexed by TensorId
  std::vector<Role> roles_;
  std::vector<size_t> role_begin_;  // indexed by OpId
  // Flags indexed by OpId: whether some of its kernels take a gradient; by position in roles_:
  // which.
  std::vector<bool> takes_gradients_;
  absl::flat_hash_map<size_t, TaskId> gradients_;
  std::vector<bool> native_;  // indexed by BufferId; empty: none is
  std::vector<HostOutput> outputs_;
  std::vector<std::pair<TaskId, TaskId>> after_;
  // Tables for control edges: the first task of each link of the chain; of operators that edges
  // name, the tasks by device.
  std::vector<int32_t> first_task_;
  std::vector<size_t> link_of_op_;  // indexed by OpId: its place in the chain
  absl::flat_hash_map<OpId, std::vector<std::pair<DeviceId, TaskId>>> awaited_;
  std::vector<bool> is_named_;  // indexed by OpId: whether operators come after it
};

}  // namespace partita

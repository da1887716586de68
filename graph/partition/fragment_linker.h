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
#include "graph/support/sections.h"
#include "graph/task/task_graph.h"

namespace partita {

// Joins the fragments of a step: gives every slot its buffer in the whole step, fuses kernels and
// chooses formats. What a step has in common with the one linked before it stays as it is: slots,
// numbers of buffers, fusion. Buffers of one link of the chain follow each other; those of the first
// step are numbered as in the task graph, later numbers have gaps.
//
// Fusion, of a kernel's results with what reads them on the same device. Epilogue (IsEpilogue): it
// is the only reader of the only result, and the kernel can apply it before storing; the epilogue's
// kernel goes and the other writes the epilogue's result. Gradient of a weight (CanFuseUpdate): the
// weight's update is its only reader; the gradient's kernel goes and the update's does both: it
// comes after all that read the old weight. Operators that the reader takes in (TakesIn): their
// results need no exchange at all, and all others read them later; their kernels go, the reader's
// does them first and stores their results. A kernel that control edges hold back or name does not
// go.
class FragmentLinker {
 public:
  // Outcome of fusion for an operator's kernel. Whether it does others first is in its pair.
  enum class Role : uint8_t {
    kAsItIs,
    kTakesEpilogue,
    kInProducer,  // an epilogue that is done by what makes its operand: no kernel
    kInReader,    // done by what reads its results: no kernel
  };
  // The cache outlives the link.
  explicit FragmentLinker(const FragmentCache& cache);

  void Link(const StepFragments& step);
  // Finds the control edges of the step linked last: after().
  void LinkEdges(const StepFragments& step);
  // The links, as places in the chain, whose kernels, slots or buffers differ from those before the
  // last Link, and perhaps some others; ascending.
  std::span<const int32_t> relinked() const { return relinked_; }

  // All buffers have lower numbers.
  int32_t buffers() const { return buffers_.end(); }
  // The buffers that a link's fragment makes, and those of a persistent tensor between steps.
  const Sections::Section& OwnBuffers(size_t link) const { return buffers_[link]; }
  const Sections::Section& StoredBuffers(TensorId id) const { return buffers_[StoreOwner(id)]; }
  std::span<const BufferId> OperatorSlots(OpId id) const { return Slots(LinkOf(id)); }
  std::span<const BufferId> TensorSlots(TensorId id, int32_t group) const {
    return Slots(LinkOf(id, group));
  }
  // The buffers of a bucket's slots.
  std::vector<BufferId> BucketSlots(const BucketFragment& bucket) const;
  Role RoleOf(OpId id, size_t task) const { return roles_[id.index()][task]; }
  bool IsNative(BufferId id) const { return !native_.empty() && native_[id.index()]; }
  const std::vector<HostOutput>& outputs() const { return outputs_; }
  // The first task of a link of the chain that buckets do not take apart.
  TaskId FirstTask(size_t link) const { return TaskId(first_task_[link]); }
  // Whether they do; and a link's task in the step, that of the bucket for those that it replaces.
  bool IsSplit(size_t link) const { return split_tasks_.contains(static_cast<int32_t>(link)); }
  TaskId TaskOf(size_t link, TaskId task) const;
  // Control edges: (task, earlier task that must have ended), sorted; tasks are numbered as in the
  // task graph. Precondition: LinkEdges.
  const std::vector<std::pair<TaskId, TaskId>>& after() const { return after_; }

  // A tensor between two operators whose kernels are joined where the reader finds the tensor as
  // its producer left it, and the kernel of the producer or the reader goes. For no others do
  // kernels change.
  struct MayFuse {
    OpId producer, reader;
    TensorId tensor;
  };
  std::vector<MayFuse> may_fuse() const;
  // The operators that such pairs connect with this one, itself included; empty where there are
  // none. Its kernels are done by its own or by theirs.
  std::span<const OpId> FusionFamilyOf(OpId id) const {
    const int32_t family = family_of_[id.index()];
    if (family < 0) return {};
    return families_[static_cast<size_t>(family)].operators;
  }

  // Whether the operator's kernels stay as its fragment has them.
  bool IsPlain(OpId id) const;
  // Kernels of an operator that is not plain, with fusion and formats done, over the operator's
  // slots and after them those of the operators that its kernels do first; the buffers of these
  // slots; and the variant, which decides all of it but the numbers of the buffers.
  using Variant = absl::InlinedVector<int32_t, 48>;
  TaskGraph Resolve(const StepFragments& step, OpId id) const;
  std::vector<BufferId> ResolvedSlots(OpId id) const;
  Variant VariantOf(const StepFragments& step, OpId id) const;

 private:
  // An operator that may be fused with the producer of what it reads.
  struct FusionPair {
    enum class Kind : uint8_t { kEpilogue, kGradient, kTakenIn };
    Kind kind;
    OpId producer, reader;
    TensorId tensor;       // one of those between
    int32_t consumer = 0;  // the reader's place among the tensor's consumers
  };
  // One of the kernels that a task does: a task of an operator's fragment, whose slots are those of
  // ResolvedSlots from `first_slot` on.
  struct ChainedKernel {
    const OperatorFragment* fragment;
    TaskId task;
    int32_t first_slot = 0;
  };
  using Chain = absl::InlinedVector<ChainedKernel, 4>;
  struct Kernel {
    ComputeTask task;
    KernelSignature signature;
  };

  std::span<const BufferId> Slots(size_t link) const {
    const Sections::Section& section = slot_sections_[link];
    return std::span(slots_).subspan(static_cast<size_t>(section.begin),
                                     static_cast<size_t>(section.size));
  }
  size_t LinkOf(OpId id) const { return link_of_op_[id.index()]; }
  size_t LinkOf(TensorId id, int32_t group) const {
    return static_cast<size_t>(cache_.places().of_tensor[id.index()][static_cast<size_t>(group)]);
  }
  // The number of the tensor's buffers between steps as an owner of buffers_, behind all links.
  size_t StoreOwner(TensorId id) const { return cache_.chain().size() + id.index(); }
  TensorId OwnedTensor(size_t owner) const {
    return TensorId(static_cast<int32_t>(owner - cache_.chain().size()));
  }

  void FindFusionPairs();
  void FindFusionFamilies();
  void FindRelinked(const StepFragments& step);
  void Relink(size_t owner);
  void RelinkStored(TensorId id);
  void RelinkTensor(TensorId id);
  void RelinkReaders(TensorId id);
  void MarkRelinked(size_t link) {
    if (is_relinked_[link] != 0) return;
    is_relinked_[link] = 1;
    relinked_.push_back(static_cast<int32_t>(link));
  }
  void LinkPersistent(const StepFragments& step);
  void LinkTensor(const StepFragments& step, const Tensor& tensor, int32_t group);
  void AddPieceSlots(const StepFragments& step, const Tensor& tensor,
                     std::vector<BufferId>& slots) const;
  void LinkOperator(const StepFragments& step, OpId id);
  void AddPersistentSlots(TensorId id, std::vector<BufferId>& slots) const;
  void AddOwnSlots(size_t link, const Fragment& fragment, std::vector<BufferId>& slots);
  void FindLonePair(FusionPair::Kind kind, const Operator& reader, size_t input);
  void FindPairsTakenIn();
  bool CanTakeIn(const Operator& producer, const Operator& reader,
                 std::span<const OpId> kernel_of) const;
  void Fuse(const StepFragments& step);
  void FuseLoneReads(const StepFragments& step, size_t pair);
  void TakeIn(const StepFragments& step, size_t pair);
  std::vector<int32_t> ProducersOfTasks(const StepFragments& step, const FusionPair& pair) const;
  bool MayVanish(const Operator& op) const;
  // The operator and those that its kernels do first, last first.
  absl::InlinedVector<OpId, 4> OperatorsOf(OpId id) const;
  // The kernels that a task of the operator does, its own last.
  Chain ChainOf(const StepFragments& step, OpId id, TaskId task) const;
  static Kernel OwnKernel(const ChainedKernel& chained);
  Kernel KernelOf(const Chain& chain, std::span<const BufferId> slots) const;
  InputLinks LinksOf(std::span<const ChainedKernel> before, const ChainedKernel& next,
                     std::span<const BufferId> slots) const;
  void ChooseFormats(const StepFragments& step);
  void NumberTasks(const StepFragments& step);
  TaskId& SplitTask(const StepFragments& step, int32_t link, int32_t task);
  int32_t KeptTasks(const StepFragments& step, const ChainLink& link) const;
  const std::vector<std::pair<DeviceId, TaskId>>& TasksOf(const StepFragments& step, OpId id);
  bool TakesOthers(OpId id) const {
    return pair_of_[id.index()] >= 0 && !taken_[static_cast<size_t>(pair_of_[id.index()])].empty();
  }

  const FragmentCache& cache_;
  const Graph& graph_;
  std::vector<FusionPair> fusion_pairs_;
  std::vector<int32_t> pair_of_;  // indexed by OpId: the pair of what its kernels may do first, or
                                  // -1
  // Indexed by OpId: the epilogue that its kernels may take, or the first operator with equal
  // attributes; kNoOp: none.
  std::vector<OpId> epilogue_of_;
  // The operators that pairs connect, all with each other, and their pairs, in order.
  struct FusionFamily {
    std::vector<OpId> operators;
    std::vector<size_t> pairs;
  };
  std::vector<FusionFamily> families_;
  std::vector<int32_t> family_of_;                         // indexed by OpId; -1: in none
  std::vector<absl::InlinedVector<TensorId, 1>> next_of_;  // indexed by TensorId: its next values
  std::vector<int64_t> linked_;       // StepFragments::numbers of what was linked last
  std::vector<TensorId> restored_;    // tensors with another store than last
  std::vector<char> is_relinked_;     // indexed by link
  std::vector<int32_t> relinked_;     // those links
  std::vector<BufferId> scratch_;     // slots of the link at hand
  std::vector<int32_t> first_reads_;  // of its operator, by input, among all of the tensor's
  std::vector<int32_t> kept_tasks_;   // indexed by link
  Sections buffers_;                  // owned by links, then by tensors that persist
  Sections slot_sections_;            // of slots_, owned by links
  std::vector<BufferId> slots_;
  std::vector<std::vector<Role>> roles_;  // indexed by OpId and task
  // Tasks of producers that are done first, indexed by pair, then by the reader's task; -1: none.
  // Empty where the pair is not fused.
  std::vector<std::vector<int32_t>> taken_;
  std::vector<bool> native_;  // indexed by BufferId; empty: none is
  std::vector<HostOutput> outputs_;
  std::vector<std::pair<TaskId, TaskId>> after_;
  std::vector<int32_t> first_task_;                                // indexed by link of the chain
  absl::flat_hash_map<int32_t, std::vector<TaskId>> split_tasks_;  // keyed by link
  // Table for control edges: the tasks, by device, of operators that edges name.
  std::vector<size_t> link_of_op_;  // indexed by OpId: its place in the chain
  absl::flat_hash_map<OpId, std::vector<std::pair<DeviceId, TaskId>>> awaited_;
  std::vector<bool> is_named_;  // indexed by OpId: whether operators come after it
};

}  // namespace partita

#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/box.h"
#include "graph/graph.h"
#include "graph/parallel/parts.h"
#include "graph/parallel/weight_layouts.h"
#include "graph/partition/demand_groups.h"
#include "graph/partition/exchange_tasks.h"
#include "graph/partition/formats.h"
#include "graph/partition/partition.h"
#include "graph/task/task_graph.h"

namespace partita {

// A task graph is a chain of fragments: one for each persistent tensor (its buffers), one for each
// operator (its kernels) and one for each tensor and group of its readers (exchange, or loads). A
// fragment depends on the parts of a few neighbouring operators only, so that fragments may be kept
// from strategy to strategy.

// Number of none (Fragment::number).
inline constexpr int64_t kNoFragment = -1;

// Tasks over *slots*: BufferIds that count within the fragment. Slots below `outer` stand for
// buffers of other fragments; the rest are made by this one, in the order in which a task graph
// numbers them. Tasks have no dependencies yet: those are found when fragments are put together.
struct Fragment {
  // A control edge into the fragment: the task waits for all tasks of the operator on the device.
  struct Edge {
    TaskId task;
    OpId op;
    DeviceId device;
  };

  TaskGraph graph;
  int32_t outer = 0;
  int64_t number = 0;       // tells fragments of one cache apart, those it has dropped included
  int32_t place = 0;        // in tables of what a cache keeps; given again when it is dropped
  std::vector<Edge> edges;  // edges in the order of the tasks

  int32_t slots() const { return static_cast<int32_t>(graph.slots()); }
  int32_t own() const { return slots() - outer; }
};

// The kernels of an operator, task t being that of its t-th part, none fused, every format dense.
struct OperatorFragment : Fragment {
  // Outer slots [0, reads.size()): what the parts read, each once: the `place`-th read by this
  // operator of the tensor that its input `input`, the first of those with it, is.
  struct Read {
    int32_t input = 0;
    int32_t place = 0;
  };
  std::vector<Read> reads;
  // The outer slots after them: updates write their persistent pieces in place.
  struct Kept {
    int32_t output = 0;  // the next value of the weight or state
    int32_t piece = 0;   // position of the piece in its layout
  };
  std::vector<Kept> kept;
  // A result's pieces by output, as (task, slot).
  struct Result {
    int32_t task = 0;
    int32_t slot = 0;
  };
  std::vector<std::vector<Result>> results;
  // The task that does each read of the input whose maker it may be fused with: an only input, or
  // the gradient that an update takes.
  std::vector<int32_t> reading_task;
  // Format rules indexed by task; empty where formats are not chosen.
  std::vector<FormatRules> formats;
  std::vector<DeviceId> devices;  // the device of each task
};

// The exchange of a tensor from its producers to one group of its consumers. Outer slots, the same
// for all groups: the pieces of its own layout if it is persistent; of the layout that it must end
// in if it is a next value, and then the pieces that its producers make, in the order of producers
// and parts.
struct TensorFragment : Fragment {
  FormatRules formats;
  std::vector<int32_t> staging;  // slots of packed data in transfer, ascending
};

// The fragments of a tensor, by demand group (FindDemandGroups); empty ones where a group's demands
// are met by another.
struct TensorFragments {
  // Source of a read: the fragment and slot of its buffer.
  struct Read {
    int32_t group = 0;
    int32_t slot = -1;  // slot of that fragment; -1: an empty box
  };
  std::vector<TensorFragment> groups;
  // All reads, by consumer and part; consumer c of graph.consumers() has [read_begin[c],
  // read_begin[c + 1]).
  std::vector<int32_t> read_begin;
  std::vector<Read> reads;
  int32_t host_slot = -1;  // slot of the first group that the host reads; -1: none
  // Outer slot, indexed by read, that it finds unmodified and that no other task reads, or -1.
  std::vector<int32_t> lone_reads;
};

// The one task of a bucket (Strategy::buckets), in place of the all-reduces of its members. All
// slots are outer: those of the members' fragments, each once.
struct BucketFragment : Fragment {
  struct Member {
    TensorId tensor;
    int32_t group = 0;  // demand group
    int32_t link = 0;   // place of its fragment in the chain
    TaskId task;        // all-reduce that is replaced, in that fragment
  };
  struct Source {
    int32_t member = 0;
    int32_t slot = 0;  // slot of the member's fragment
  };
  std::vector<Member> members;
  std::vector<Source> sources;  // indexed by slot
};

// A link of the chain: the fragment of an operator, or of a tensor for a demand group.
struct ChainLink {
  bool is_tensor = false;
  int32_t id = 0;
  int32_t group = 0;
};

// Places of links in the chain.
struct ChainPlaces {
  std::vector<int32_t> of_op;                   // indexed by OpId
  std::vector<std::vector<int32_t>> of_tensor;  // indexed by TensorId and group; -1: not there
};

// Tasks that follow each other in a task graph: the task of a bucket, or some of a link's fragment,
// without those that buckets replace. Those behind such a one follow its bucket.
struct TaskRun {
  static constexpr int32_t kAll = -1;
  int32_t link = 0;               // place in the chain
  int32_t begin = 0, end = kAll;  // tasks of the fragment
  int32_t bucket = -1;            // position in StepFragments::buckets; -1: of the link

  std::span<const Task> TasksOf(const TaskGraph& graph) const {
    return end == kAll ? graph.tasks() : graph.TasksBetween(begin, end);
  }
};

// The fragments of one strategy's step. A task graph has the buffers of all persistent tensors
// first, in the order of the tensors, then those of the fragments in the order of
// FragmentCache::chain(); tasks in the order of `runs`.
struct StepFragments {
  std::vector<const OperatorFragment*> operators;  // indexed by OpId
  std::vector<const TensorFragments*> tensors;     // indexed by TensorId
  std::vector<const Fragment*> stores;  // indexed by TensorId; null for what does not persist
  std::vector<const BucketFragment*> buckets;  // indexed by place in Strategy::buckets
  std::vector<TaskRun> runs;
  // Numbers of the fragments: of links, by place in the chain; behind them of stores, by TensorId.
  // kNoFragment where there is none.
  std::vector<int64_t> numbers;

  const TensorFragment& TensorFragmentOf(TensorId id, int32_t group) const {
    return tensors[id.index()]->groups[static_cast<size_t>(group)];
  }
  const Fragment& FragmentOf(const ChainLink& link) const {
    if (link.is_tensor) return TensorFragmentOf(TensorId(link.id), link.group);
    return *operators[static_cast<size_t>(link.id)];
  }
};

// Kernels of one operator's parts, none fused, every format dense. What is passed outlives this.
class PartKernels {
 public:
  PartKernels(const Graph& graph, const Operator& op, const PartitionOptions& options);
  PartKernels(const PartKernels&) = delete;
  PartKernels& operator=(const PartKernels&) = delete;

  KernelSignature Of(const Part& part);

 private:
  KernelTensor PieceOf(TensorId tensor, const TensorView& view) const;

  const Graph& graph_;
  const Operator& op_;
  const PartitionOptions& options_;
  const std::vector<Shape> forward_inputs_, forward_outputs_;
  PartViews forward_;  // of the forward operator
};

// Inputs of an operator's fragment besides its parts.
struct OperatorSetting {
  const WeightLayouts* layouts =
      nullptr;            // of the weight that an update belongs to; null for others
  bool outlines = false;  // true: tasks are only priced; kernels do not say which pieces they take
};
OperatorFragment MakeOperatorFragment(const Graph& graph, const Operator& op,
                                      std::span<const Part> parts, const OperatorSetting& setting,
                                      const PartitionOptions& options);

// Parts of each operator, indexed by OpId.
using PartsByOp = std::span<const std::span<const Part>>;

// Inputs of a tensor's fragments besides the parts of its producers and consumers.
struct TensorSetting {
  std::span<const DemandGroup> groups;     // FindDemandGroups of the tensor
  const WeightLayouts* layouts = nullptr;  // layouts of the weight that it, or its next value,
                                           // belongs to
  DeviceId host_device;
  std::span<const AlgorithmChoice> algorithms = {};  // Strategy::algorithms of the tensor
  bool outlines = false;  // true: tasks are only priced; moves of the exchange have outlines
  // Parts and layouts that the first pod has, where only its fragments are wanted
  // (PartitionOptions::pod_devices).
  PartsByOp pod_parts = {};
  const WeightLayouts* pod_layouts = nullptr;
};

// All that the fragments of a tensor follow from, besides the options and the algorithms chosen for
// its collectives: tensors of equal content have fragments that differ in the tensor's id only.
using TensorContent = std::vector<int64_t>;
template <class... Numbers>
void AppendNumbers(TensorContent& content, Numbers... numbers) {
  const int64_t list[] = {static_cast<int64_t>(numbers)...};
  content.insert(content.end(), std::begin(list), std::end(list));
}
// Two numbers as one.
inline int64_t Packed(int32_t high, int32_t low) {
  return static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 |
                              static_cast<uint32_t>(low));
}
// Appends the box, as a number for each dimension, to numbers that something follows from, all boxes of
// which have one rank.
inline void AppendBox(const Box& box, std::vector<int64_t>& content) {
  for (const Interval& dim : box.dims()) content.push_back(Packed(dim.lo, dim.hi));
}

// The fragments of a tensor in the making: first its pieces and demands, then its solved exchanges
// and what they send, at last their tasks.
class TensorFragmentsBuilder {
 public:
  // Finds pieces and demands. All that is passed, or that the setting refers to, outlives the
  // builder.
  TensorFragmentsBuilder(const Graph& graph, const Tensor& tensor, PartsByOp parts,
                         const TensorSetting& setting, const PartitionOptions& options);
  TensorFragmentsBuilder(TensorFragmentsBuilder&&) noexcept;
  TensorFragmentsBuilder& operator=(TensorFragmentsBuilder&&) noexcept;
  ~TensorFragmentsBuilder();

  const Tensor& tensor() const;
  // Precondition: Solve has not been called.
  TensorContent content() const;
  // Solves the exchanges. To be called once.
  void Solve();
  // Steps of the exchanges, by demand group. Precondition: Solve.
  std::vector<std::span<const ExchangeStep>> steps() const;
  // Finds the communications, in the order of their tasks: for those who want to see them first. To
  // be called once; false where the watch gave the tensor up. Precondition: Solve.
  bool FindCommunications(const CommunicationWatch& watch);
  // To be called once. Precondition: Solve.
  TensorFragments Build() &&;

 private:
  class Maker;
  std::unique_ptr<Maker> maker_;
};

// Whether the view has elements.
inline bool IsPiece(const TensorView& view) { return view.present && !view.box.empty(); }

// Element type in which the operator's parts read and write the tensor.
DType ElementTypeOf(const PartitionOptions& options, const Operator& op, const Tensor& tensor);

// Whether the loader delivers the tensor, to every device that reads it.
inline bool IsLoaded(const Tensor& tensor) {
  return tensor.kind == TensorKind::kInput || tensor.kind == TensorKind::kLabels ||
         tensor.kind == TensorKind::kSeed;
}

// The place of an operator in graph.consumers(tensor).
int32_t ConsumerPlace(const Graph& graph, TensorId tensor, OpId op);

// Pieces of a persistent tensor between steps, and its buffers there: a fragment without tasks.
const std::vector<PlacedBox>& PersistentPieces(const Tensor& tensor, const WeightLayouts& layout);
Buffer PersistentBuffer(const Tensor& tensor, const PlacedBox& piece);
Fragment MakeStore(const Tensor& tensor, const WeightLayouts& layout, int devices);

// Tensors that the host reads when the step has ended: options.extra_outputs, the loss, the
// metrics.
std::vector<TensorId> HostTensors(const Graph& graph, const PartitionOptions& options);

}  // namespace partita

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "graph/box.h"
#include "graph/collective/schedule.h"
#include "graph/graph.h"
#include "graph/support/strong_int.h"
#include "graph/task/dependencies.h"
#include "graph/task/kernel_signature.h"
#include "graph/task/task_ids.h"

namespace partita {

// Task graph: what each device does in one step, the one description that is priced, checked,
// lowered and executed.

enum class BufferKind : uint8_t {
  kActivation,  // lives within a step
  kStaging,     // packed data in transfer
  kHostInput,   // filled by the loader every step
  kWeight,      // lives between steps: a region of a parameter
  kState,       // lives between steps: a region of an optimizer state
};

// A piece of a tensor on a device.
struct Buffer {
  BufferId id;
  DeviceId device;
  BufferKind kind = BufferKind::kActivation;
  TensorId tensor = kNoTensor;
  DType dtype = DType::kFloat32;
  Box box;             // without meaning for staging
  int64_t staged = 0;  // elements of staging
  Format format = Format::kDense;

  int64_t elements() const { return kind == BufferKind::kStaging ? staged : box.volume(); }
  Shape shape() const { return kind == BufferKind::kStaging ? Shape{staged} : box.shape(); }
  bool persistent() const { return kind == BufferKind::kWeight || kind == BufferKind::kState; }
};

// The box of a buffer as text, "[0:n]" of n elements of staging.
std::string BoxText(const Buffer& buffer);

// `count` elements of a buffer from `offset` on.
struct Slice {
  BufferId buffer = kNoBuffer;
  int64_t offset = 0;
  int64_t count = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

// The elements of a buffer from `offset` on hold `box`, row-major.
struct BufferWindow {
  BufferId buffer = kNoBuffer;
  Box box;
  int64_t offset = 0;
};

// A kernel of an operator's part.
struct ComputeTask {
  DeviceId device;
  OpId op;
  int32_t part = 0;
  int32_t signature = 0;         // index in TaskGraph::signatures()
  std::vector<BufferId> inputs;  // kNoBuffer: not present, or empty
  std::vector<BufferId> outputs;
  // The piece that each input and output is, also where there is no buffer; none where the task is only
  // priced.
  std::vector<Box> input_boxes, output_boxes;
  // Operators that a fused kernel does before `op`, in order; `op` and `part` are those of the last
  // but for an epilogue.
  std::vector<OpId> before = {};
};

// The tensors that a kernel's inputs and outputs are pieces of; an epilogue's result counts as its
// operand.
struct KernelTensors {
  std::vector<TensorId> inputs, outputs;
};
KernelTensors TensorsOf(const Graph& graph, const ComputeTask& task,
                        const KernelSignature& signature);

// Copies, sums and fills within a device, in order.
struct Move {
  MoveSignature::Kind kind = MoveSignature::Kind::kCopy;
  BufferWindow from;  // unused by kFill
  BufferWindow to;
  Box region;  // inside both boxes
};
// Cost and buffers of a move task, without the places of its elements.
struct MoveOutline {
  // Moves of one signature that follow each other.
  struct Run {
    MoveSignature signature;
    int64_t moves = 1;
  };
  std::vector<Run> runs;
  std::vector<BufferUse> uses;  // buffers that it reads, each once; then those that it writes
};
struct MoveTask {
  DeviceId device;
  DType dtype = DType::kFloat32;  // element type of what is written
  std::vector<Move> moves;
  DType from = dtype;  // element type of what is read; another one only where all are kReorder
  // Instead of moves, where the task is only priced; else null.
  std::shared_ptr<const MoveOutline> outline = nullptr;
};

// The loader fills a host-input buffer.
struct LoadTask {
  DeviceId device;
  BufferId buffer;
};

// A collective between the devices of `group`, in rank order. In place for all but all-to-all: then
// send[k] == receive[k].
struct CollectiveTask {
  std::vector<DeviceId> group;
  Collective collective;
  std::string algorithm;
  DType dtype = DType::kFloat32;
  // Slices by rank. Of a bucket: those of its first tensor by rank, then those of the second, ..; a
  // rank's elements are those of its slices one after another.
  std::vector<Slice> send, receive;
  // Tensors of a bucket (Strategy::buckets); empty: the one of the task's key.
  std::vector<TensorId> bucket = {};
  // Whether other groups form the same sums for themselves, in the same order of terms: then it is
  // in no bucket.
  bool has_replicas = false;

  // Number of slices of each rank.
  size_t slices() const { return bucket.empty() ? 1 : bucket.size(); }
  const Slice& sent(size_t rank, size_t slice) const { return send[slice * group.size() + rank]; }
  const Slice& received(size_t rank, size_t slice) const {
    return receive[slice * group.size() + rank];
  }
};
// Elements of a slice, which for other collectives than buckets the collective knows.
int64_t ElementsSent(const CollectiveTask& task, size_t rank, size_t slice);
int64_t ElementsToReceive(const CollectiveTask& task, size_t rank, size_t slice);
// Elements of a rank in front of each of its slices in a bucket; {0} for other collectives.
std::vector<int64_t> SliceStarts(const CollectiveTask& task);
// The task's schedule, in which no step crosses from slice to slice. Errors as BuildSchedule.
absl::StatusOr<CollectiveSchedule> ScheduleOf(const CollectiveTask& task);

// Point-to-point copies that start together.
struct Transfer {
  DeviceId from, to;
  Slice send, receive;
};
struct TransferTask {
  DType dtype = DType::kFloat32;
  std::vector<DeviceId> group;  // every device that sends or receives, sorted
  std::vector<Transfer> transfers;
};

// Names a task by what it is for, never by when it was made: ties are broken and plans are stored
// by it.
struct TaskKey {
  enum class Phase : uint8_t {
    kCompute,
    kLoad,
    kFill,
    kSum,
    kPack,
    kMove,
    kSend,
    kUnpack,
    kConvert,
  };
  bool of_tensor = false;  // subject is a tensor, else an operator
  int32_t subject = 0;
  int32_t step = 0;  // step of the tensor's exchange; 0 for compute
  Phase phase = Phase::kCompute;
  int32_t from = 0;  // compute: part; otherwise a device
  int32_t to = 0;    // kSum: minus the microbatch, if that is not the first; kConvert: its number;
                     // otherwise a device
  friend auto operator<=>(const TaskKey&, const TaskKey&) = default;
  template <class H>
  friend H AbslHashValue(H h, const TaskKey& a) {
    return H::combine(std::move(h), a.of_tensor, a.subject, a.step, a.phase, a.from, a.to);
  }
};

using TaskBody = std::variant<ComputeTask, MoveTask, LoadTask, CollectiveTask, TransferTask>;

struct Task {
  TaskId id;
  TaskKey key;
  TaskBody body;
  // Tasks that must have ended before it starts: sorted; all earlier in the canonical order.
  std::vector<TaskId> dependencies;
  // Dependencies, among the above, that come from control edges; sorted.
  std::vector<TaskId> after = {};
};

// Whether a task runs on the compute lane or the communication lane of its devices.
bool IsCommunication(const Task& task);
// The devices whose lanes it holds, sorted.
std::vector<DeviceId> DevicesOf(const Task& task);

// Buffers, each once, in the order in which they first come.
class BufferList {
 public:
  using Ids = absl::InlinedVector<BufferId, 6>;

  void Add(BufferId id) {
    if (id == kNoBuffer || (!ids_.empty() && ids_.back() == id)) return;
    if (ids_.size() < kFew) {
      if (std::find(ids_.begin(), ids_.end(), id) == ids_.end()) ids_.push_back(id);
      return;
    }
    if (listed_.empty()) {
      for (BufferId listed : ids_) Mark(listed);
    }
    if (Mark(id)) ids_.push_back(id);
  }
  const Ids& ids() const { return ids_; }
  void Clear() {
    ids_.clear();
    listed_.clear();
  }
  Ids Take() && { return std::move(ids_); }

 private:
  static constexpr size_t kFew = 32;

  // Returns whether it was not marked.
  bool Mark(BufferId id) {
    if (listed_.size() <= id.index()) listed_.resize(2 * id.index() + 1, false);
    const bool is_new = !listed_[id.index()];
    listed_[id.index()] = true;
    return is_new;
  }

  Ids ids_;
  std::vector<bool> listed_;  // indexed by BufferId; once they are not few
};

// Buffers that a task reads and writes, each once. In-place tasks name a buffer in both.
struct Access {
  BufferList::Ids reads, writes;
};
Access AccessOf(const Task& task);
// The same as one list: reads, then writes.
using BufferUseList = absl::InlinedVector<BufferUse, 8>;
BufferUseList UsesOf(const Task& task);

// A value that the host reads when the step has ended: no task overwrites it.
struct HostOutput {
  TensorId tensor;
  BufferId buffer;
};

class TaskGraph {
 public:
  // Tasks in canonical order: topological, and the same for equal arguments of Partition. All of them,
  // but for KeepCollectives.
  std::span<const Task> tasks() const { return tasks_; }
  // One that is kept.
  const Task& task(TaskId id) const { return *FirstFrom(id.value()); }
  // Tasks of [begin, end) that are kept.
  std::span<const Task> TasksBetween(int32_t begin, int32_t end) const {
    return {FirstFrom(begin), FirstFrom(end)};
  }
  // The number of tasks, kept or not.
  size_t size() const { return tasks_.size() + left_out_; }
  // All of them, but for KeepCollectives.
  std::span<const Buffer> buffers() const { return buffers_; }
  // One that is kept.
  const Buffer& buffer(BufferId id) const { return *PlaceFrom(buffers_, id, slots_left_out_); }
  // The number of buffers, kept or not.
  size_t slots() const { return buffers_.size() + slots_left_out_; }
  std::span<const KernelSignature> signatures() const { return signatures_; }
  std::span<const HostOutput> outputs() const { return outputs_; }
  int devices() const { return devices_; }
  // Other tasks, numbered in their order, over the same buffers and signatures.
  TaskGraph WithTasks(std::vector<Task> tasks, int devices) const;
  // The same on every machine for equal graphs. Computed again by each call.
  uint64_t fingerprint() const;
  // Bytes that it takes of the heap, without attributes of kernels that have lists.
  int64_t HeapBytes() const;
  // Keeps of its tasks only the collectives, and of its buffers those that they use, under their numbers;
  // no signatures of kernels: for a graph whose tasks have been priced. Returns the bytes that this frees.
  int64_t KeepCollectives();

 private:
  friend class TaskGraphBuilder;

  // The first one that is kept of those from that number on.
  template <class Item, class Id>
  static typename std::vector<Item>::const_iterator PlaceFrom(const std::vector<Item>& kept,
                                                              Id first, size_t left_out) {
    if (left_out == 0) return kept.begin() + first.value();
    return std::lower_bound(kept.begin(), kept.end(), first,
                            [](const Item& item, Id wanted) { return item.id < wanted; });
  }
  std::vector<Task>::const_iterator FirstFrom(int32_t number) const {
    return PlaceFrom(tasks_, TaskId(number), left_out_);
  }

  std::vector<Task> tasks_;
  size_t left_out_ = 0;  // tasks
  std::vector<Buffer> buffers_;
  size_t slots_left_out_ = 0;  // buffers
  std::vector<KernelSignature> signatures_;
  std::vector<HostOutput> outputs_;
  int devices_ = 0;
};

// Adds tasks front to back and derives their dependencies (DependencyFinder).
class TaskGraphBuilder {
 public:
  // `finds_dependencies`: false where tasks are put into another graph, which finds them.
  explicit TaskGraphBuilder(int devices, bool finds_dependencies = true)
      : finds_dependencies_(finds_dependencies) {
    graph_.devices_ = devices;
  }

  // Makes room for so many tasks and buffers.
  void Reserve(size_t tasks, size_t buffers) {
    graph_.tasks_.reserve(tasks);
    graph_.buffers_.reserve(buffers);
  }
  BufferId AddBuffer(Buffer buffer);  // the id is filled in
  BufferId AddStaging(DeviceId device, DType dtype, int64_t elements);
  // Makes a staging buffer larger. Returns the new elements, which begin where buffers may.
  Slice ExtendStaging(BufferId id, int64_t elements);
  const Buffer& buffer(BufferId id) const { return graph_.buffers_[id.index()]; }
  int32_t buffers() const { return static_cast<int32_t>(graph_.buffers_.size()); }
  int32_t AddSignature(const KernelSignature& signature);
  // Adds a task. `after`: earlier tasks, sorted, that control edges make it wait for.
  TaskId AddTask(TaskKey key, TaskBody body, std::vector<TaskId> after = {});
  void AddOutput(TensorId tensor, BufferId buffer) { graph_.outputs_.push_back({tensor, buffer}); }

  TaskGraph Build() && { return std::move(graph_); }

 private:
  TaskGraph graph_;
  const bool finds_dependencies_;
  DependencyFinder dependencies_;
  absl::flat_hash_map<KernelSignature, int32_t> signature_index_;
  int32_t last_signature_ = 0;  // added or asked for last
};

// Name of a task for people: "conv1.d1 part 2", "load input", "all_reduce d:conv1.weight (ring, 4
// devices)", "all_reduce d:conv1.bias and 3 more (ring, 4 devices)", "sum d:x", "transfer pool5".
// The graph is the one the task graph came from.
std::string TaskName(const Graph& graph, const Task& task);

// One line for a task, and for each task of the whole graph.
std::string TaskText(const TaskGraph& tasks, const Graph& graph, TaskId id);
std::string TaskGraphText(const TaskGraph& tasks, const Graph& graph);

// The signature of a copy or fill of `region` from a window that holds `from` to one that holds `to`,
// both in one element type; of a fill only `to` counts.
MoveSignature SignatureOf(MoveSignature::Kind kind, DType dtype, const Box& region, const Box& from,
                          const Box& to);
// The signatures of a move task's moves, for pricing and profiling.
std::vector<MoveSignature> SignaturesOf(const MoveTask& task);

// Elements that arrive at `device` from other devices when the task runs.
int64_t ElementsReceived(const CollectiveTask& task, DeviceId device);
int64_t ElementsReceived(const TransferTask& task, DeviceId device);
// Bytes received by each device in the whole graph.
std::vector<Bytes> BytesReceived(const TaskGraph& graph);

}  // namespace partita

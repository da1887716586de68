// Partition puts fragments together: their buffers, then their tasks, each over the buffers that
// its slots stand for.
#include "graph/partition/partition.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/partition/fragment_cache.h"
#include "graph/partition/fragment_linker.h"
#include "graph/support/error_category.h"
#include "graph/support/memory.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"

namespace partita {
namespace {

// Replaces slots by buffers.
class SlotReplacer {
 public:
  explicit SlotReplacer(std::span<const BufferId> slots) : slots_(slots) {}

  void operator()(ComputeTask& task) const {
    for (BufferId& id : task.inputs) Replace(id);
    for (BufferId& id : task.outputs) Replace(id);
  }
  void operator()(MoveTask& task) const {
    for (Move& move : task.moves) {
      Replace(move.from.buffer);
      Replace(move.to.buffer);
    }
  }
  void operator()(LoadTask& task) const { Replace(task.buffer); }
  void operator()(CollectiveTask& task) const {
    for (Slice& slice : task.send) Replace(slice.buffer);
    for (Slice& slice : task.receive) Replace(slice.buffer);
  }
  void operator()(TransferTask& task) const {
    for (Transfer& transfer : task.transfers) {
      Replace(transfer.send.buffer);
      Replace(transfer.receive.buffer);
    }
  }

 private:
  void Replace(BufferId& id) const {
    if (id != kNoBuffer) id = slots_[id.index()];
  }

  std::span<const BufferId> slots_;
};

class Assembler {
 public:
  Assembler(const FragmentCache& cache, const StepFragments& step, const FragmentLinker& link)
      : cache_(cache), step_(step), link_(link), builder_(cache.options().devices) {}

  TaskGraph Run() {
    for (const Fragment* store : step_.stores) {
      if (store != nullptr) AddBuffers(*store);
    }
    for (const ChainLink& link : cache_.chain()) AddBuffers(step_.FragmentOf(link));
    for (const TaskRun& run : step_.runs) AddRun(run);
    for (const HostOutput& output : link_.outputs()) {
      builder_.AddOutput(output.tensor, output.buffer);
    }
    return std::move(builder_).Build();
  }

 private:
  void AddRun(const TaskRun& run) {
    if (run.bucket >= 0) {
      const BucketFragment& bucket = *step_.buckets[static_cast<size_t>(run.bucket)];
      return AddTasks(bucket.graph, bucket.graph.tasks(), link_.BucketSlots(bucket));
    }
    const ChainLink& link = cache_.chain()[static_cast<size_t>(run.link)];
    const OpId id(link.id);
    if (!link.is_tensor && !link_.IsPlain(id)) {
      const TaskGraph resolved = link_.Resolve(step_, id);
      return AddTasks(resolved, resolved.tasks(), link_.ResolvedSlots(id));
    }
    const TaskGraph& graph = step_.FragmentOf(link).graph;
    AddTasks(graph, run.TasksOf(graph),
             link.is_tensor ? link_.TensorSlots(TensorId(link.id), link.group)
                            : link_.OperatorSlots(id));
  }

  void AddBuffers(const Fragment& fragment) {
    for (Buffer buffer : fragment.graph.buffers().subspan(static_cast<size_t>(fragment.outer))) {
      if (link_.IsNative(BufferId(builder_.buffers()))) buffer.format = Format::kNative;
      builder_.AddBuffer(std::move(buffer));
    }
  }

  // Some of the tasks of a fragment's graph.
  void AddTasks(const TaskGraph& graph, std::span<const Task> tasks,
                std::span<const BufferId> slots) {
    const SlotReplacer replacer(slots);
    for (const Task& task : tasks) {
      TaskBody body = task.body;
      std::visit(replacer, body);
      if (auto* compute = std::get_if<ComputeTask>(&body)) {
        compute->signature =
            builder_.AddSignature(graph.signatures()[static_cast<size_t>(compute->signature)]);
      }
      std::vector<TaskId> after;
      for (;
           next_after_ < link_.after().size() && link_.after()[next_after_].first.index() == tasks_;
           ++next_after_) {
        after.push_back(link_.after()[next_after_].second);
      }
      ++tasks_;
      builder_.AddTask(task.key, std::move(body), std::move(after));
    }
  }

  const FragmentCache& cache_;
  const StepFragments& step_;
  const FragmentLinker& link_;
  TaskGraphBuilder builder_;
  size_t tasks_ = 0;       // so far
  size_t next_after_ = 0;  // in the linker's control edges
};

}  // namespace

namespace {

// Memory that a part takes at least while its task is made, and from where on it is compared with
// what there is.
constexpr int64_t kLeastBytesOfPart = 3'000, kMuch = int64_t{1} << 28;
// A step takes its fragments' memory again, as a graph and as flat lists.
constexpr int64_t kCopies = 2;

absl::Status CheckTaskMemory(int64_t bytes, absl::string_view what) {
  const absl::Status status = CheckMemory(bytes, what);
  if (status.ok()) return status;
  return WithMessage(status, absl::StrCat(status.message(),
                                          ". Use fewer devices, or plan with a batch that is a "
                                          "multiple of them, by which pods are searched"));
}

// Makes the fragments, as long as there is room for the step that they are of.
absl::Status MakeFragments(const Strategy& strategy, const std::atomic<bool>* stop,
                           FragmentCache& cache, StepFragments& step) {
  absl::Status room;
  int64_t checked = 0;  // bytes
  const absl::Status made = cache.FindOrBuild(strategy, step, [&] {
    const int64_t bytes = cache.bytes().value();
    if (bytes >= checked + kMuch) {
      checked = bytes;
      room = CheckTaskMemory(kCopies * bytes, "the tasks of a step, as far as they are made,");
    }
    return IsSet(stop) || !room.ok();
  });
  return room.ok() ? made : room;
}

}  // namespace

absl::Status CheckRoom(const Graph& graph, const Strategy& strategy) {
  if (strategy.configs.size() != graph.ops().size()) return absl::OkStatus();  // is found elsewhere
  int64_t parts = 0;
  for (const Operator& op : graph.ops()) {
    if (op.anchor == kNoOp) continue;
    parts += static_cast<int64_t>(strategy.configs[op.anchor.index()].devices.size());
  }
  if (parts * kLeastBytesOfPart < kMuch) return absl::OkStatus();
  return CheckTaskMemory(parts * kLeastBytesOfPart,
                         absl::StrCat("the tasks of ", parts, " parts of operators"));
}

absl::StatusOr<TaskGraph> Partition(const Graph& graph, const Strategy& strategy,
                                    const PartitionOptions& options) {
  RETURN_IF_ERROR(CheckRoom(graph, strategy));
  FragmentCache cache(graph, options);
  StepFragments step;
  RETURN_IF_ERROR(MakeFragments(strategy, options.stop, cache, step));
  FragmentLinker link(cache);
  link.Link(step);
  link.LinkEdges(step);
  return Assembler(cache, step, link).Run();
}

std::vector<TensorId> HostTensors(const Graph& graph, const PartitionOptions& options) {
  std::vector<TensorId> ids = options.extra_outputs;
  for (TensorRole role : {TensorRole::kLoss, TensorRole::kCorrect}) {
    const auto outputs = graph.tensors(role);
    ids.insert(ids.end(), outputs.begin(), outputs.end());
  }
  return ids;
}

}  // namespace partita

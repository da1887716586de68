// Partition puts fragments together: their buffers, then their tasks, each over the buffers that
// its slots stand for.
#include "graph/partition/partition.h"

#include <utility>

#include "graph/partition/fragment_cache.h"
#include "graph/partition/fragment_linker.h"
#include "graph/support/status_macros.h"

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

absl::StatusOr<TaskGraph> Partition(const Graph& graph, const Strategy& strategy,
                                    const PartitionOptions& options) {
  FragmentCache cache(graph, options);
  StepFragments step;
  RETURN_IF_ERROR(cache.FindOrBuild(strategy, step));
  FragmentLinker link(cache);
  link.Link(step);
  link.LinkEdges(step);
  return Assembler(cache, step, link).Run();
}

}  // namespace partita

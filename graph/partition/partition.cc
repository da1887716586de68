// Partition puts fragments together: their buffers, then their tasks, each over the buffers that
// its slots stand for.
#include "graph/partition/partition.h"

#include <limits>
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
    for (const FragmentCache::Link& link : cache_.chain()) {
      const auto id = static_cast<size_t>(link.id);
      AddBuffers(link.is_tensor ? static_cast<const Fragment&>(TensorFragmentOf(link))
                                : *step_.operators[id]);
    }
    for (const FragmentCache::Link& link : cache_.chain()) {
      if (link.is_tensor) {
        AddTasks(TensorFragmentOf(link).graph, link_.TensorSlots(TensorId(link.id), link.group));
        continue;
      }
      const OpId id(link.id);
      if (link_.IsPlain(step_, id)) {
        AddTasks(step_.operators[id.index()]->graph, link_.OperatorSlots(id));
      } else {
        AddTasks(link_.Resolve(step_, id), link_.ResolvedSlots(id));
      }
    }
    for (const HostOutput& output : link_.outputs()) {
      builder_.AddOutput(output.tensor, output.buffer);
    }
    return std::move(builder_).Build();
  }

 private:
  const TensorFragment& TensorFragmentOf(const FragmentCache::Link& link) const {
    return step_.tensors[static_cast<size_t>(link.id)]->groups[static_cast<size_t>(link.group)];
  }

  void AddBuffers(const Fragment& fragment) {
    for (Buffer buffer : fragment.graph.buffers().subspan(static_cast<size_t>(fragment.outer))) {
      if (link_.IsNative(BufferId(builder_.buffers()))) buffer.format = Format::kNative;
      builder_.AddBuffer(std::move(buffer));
    }
  }

  void AddTasks(const TaskGraph& graph, std::span<const BufferId> slots) {
    const SlotReplacer replacer(slots);
    for (const Task& task : graph.tasks()) {
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
  FragmentCache cache(graph, options, std::numeric_limits<int64_t>::max());
  StepFragments step;
  RETURN_IF_ERROR(cache.FindOrBuild(strategy, step));
  FragmentLinker link(cache);
  link.Link(step);
  return Assembler(cache, step, link).Run();
}

}  // namespace partita

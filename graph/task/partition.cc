// Partition puts fragments together: their buffers, then their tasks, each over the buffers that
// its slots stand for.
#include "graph/task/partition.h"

#include <limits>
#include <utility>

#include "graph/support/status_macros.h"
#include "graph/task/fragment_cache.h"
#include "graph/task/step_link.h"

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
  Assembler(const FragmentCache& cache, const StepFragments& step, const StepLink& link)
      : cache_(cache), step_(step), link_(link), builder_(cache.options().devices) {}

  TaskGraph Run() {
    for (const Tensor& tensor : cache_.graph().tensors()) {
      const auto* pieces = step_.persistent[tensor.id.index()];
      if (pieces == nullptr) continue;
      for (const PlacedBox& piece : *pieces) builder_.AddBuffer(PersistentBuffer(tensor, piece));
    }
    for (const FragmentCache::Link& link : cache_.chain()) AddBuffers(FragmentOf(link));
    for (const FragmentCache::Link& link : cache_.chain()) {
      if (link.is_tensor) {
        AddTensorTasks(TensorId(link.id));
      } else {
        AddKernels(OpId(link.id));
      }
    }
    for (const HostOutput& output : link_.outputs()) {
      builder_.AddOutput(output.tensor, output.buffer);
    }
    return std::move(builder_).Build();
  }

 private:
  const Fragment& FragmentOf(const FragmentCache::Link& link) const {
    const auto id = static_cast<size_t>(link.id);
    return link.is_tensor ? static_cast<const Fragment&>(*step_.tensors[id]) : *step_.operators[id];
  }

  void AddBuffers(const Fragment& fragment) {
    for (Buffer buffer : fragment.graph.buffers().subspan(static_cast<size_t>(fragment.outer))) {
      if (link_.IsNative(BufferId(builder_.buffers()))) buffer.format = Format::kNative;
      builder_.AddBuffer(std::move(buffer));
    }
  }

  void AddTensorTasks(TensorId id) {
    const SlotReplacer replacer(link_.TensorSlots(id));
    for (const Task& task : step_.tensors[id.index()]->graph.tasks()) {
      TaskBody body = task.body;
      std::visit(replacer, body);
      builder_.AddTask(task.key, std::move(body));
    }
  }

  void AddKernels(OpId id) {
    const OperatorFragment& fragment = *step_.operators[id.index()];
    for (const Task& task : fragment.graph.tasks()) {
      const StepLink::Role role = link_.RoleOf(id, task.id.index());
      if (role == StepLink::Role::kInProducer || role == StepLink::Role::kInUpdate) continue;
      Kernel kernel = KernelOf({id, task.id.value()});
      kernel.signature.fused_relu = role == StepLink::Role::kTakesRelu;
      if (role == StepLink::Role::kTakesGradient) {
        TakeGradient(KernelOf(link_.GradientFor(id, task.id.index())), kernel);
      }
      SetFormats(kernel.task.inputs, kernel.signature.inputs);
      SetFormats(kernel.task.outputs, kernel.signature.outputs);
      kernel.task.signature = builder_.AddSignature(kernel.signature);
      builder_.AddTask(task.key, std::move(kernel.task));
    }
  }

  struct Kernel {
    ComputeTask task;
    KernelSignature signature;
  };

  // As it is in its fragment, over the buffers of the whole.
  Kernel KernelOf(StepLink::KernelId id) const {
    const OperatorFragment& fragment = *step_.operators[id.op.index()];
    Kernel kernel{std::get<ComputeTask>(fragment.graph.task(TaskId(id.task)).body), {}};
    SlotReplacer(link_.OperatorSlots(id.op))(kernel.task);
    kernel.signature = fragment.graph.signatures()[static_cast<size_t>(kernel.task.signature)];
    return kernel;
  }

  // The update's kernel becomes one that computes the gradient, too.
  static void TakeGradient(Kernel gradient, Kernel& update) {
    const auto take = [](auto& first, auto& rest) {
      rest.erase(rest.begin() + kGradientInput);
      rest.insert(rest.begin(), first.begin(), first.end());
    };
    take(gradient.task.inputs, update.task.inputs);
    take(gradient.task.input_boxes, update.task.input_boxes);
    take(gradient.signature.inputs, update.signature.inputs);
    update.task.gradient = gradient.task.op;
    update.signature.fused_update = update.signature.attrs;
    update.signature.attrs = gradient.signature.attrs;
    update.signature.pass = gradient.signature.pass;
  }

  void SetFormats(const std::vector<BufferId>& buffers, std::vector<KernelTensor>& tensors) const {
    for (size_t k = 0; k < buffers.size(); ++k) {
      if (buffers[k] != kNoBuffer && link_.IsNative(buffers[k])) {
        tensors[k].format = Format::kNative;
      }
    }
  }

  const FragmentCache& cache_;
  const StepFragments& step_;
  const StepLink& link_;
  TaskGraphBuilder builder_;
};

}  // namespace

absl::StatusOr<TaskGraph> Partition(const Graph& graph, const Strategy& strategy,
                                    const PartitionOptions& options) {
  FragmentCache cache(graph, options, std::numeric_limits<int64_t>::max());
  StepFragments step;
  RETURN_IF_ERROR(cache.Find(strategy, step));
  StepLink link(cache);
  link.Link(step);
  return Assembler(cache, step, link).Run();
}

}  // namespace partita

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "graph/partition/fragment.h"
#include "graph/support/check.h"

namespace partita {
namespace {

class OperatorFragmentMaker {
 public:
  OperatorFragmentMaker(const Graph& graph, const Operator& op, std::span<const Part> parts,
                        const OperatorSetting& setting, const PartitionOptions& options)
      : graph_(graph),
        op_(op),
        parts_(parts),
        layout_(setting.layouts),
        outlines_(setting.outlines),
        options_(options),
        kernels_(graph, op, options),
        builder_(options.devices, false) {}

  OperatorFragment Run(bool choose_formats) {
    fragment_.devices.reserve(parts_.size());
    builder_.Reserve(parts_.size(), parts_.size() * (op_.inputs.size() + op_.outputs.size()));
    AddReads();
    AddKept();
    fragment_.outer = static_cast<int32_t>(fragment_.reads.size() + fragment_.kept.size());
    fragment_.results.resize(op_.outputs.size());
    for (size_t p = 0; p < parts_.size(); ++p) AddKernel(static_cast<int32_t>(p));
    fragment_.graph = std::move(builder_).Build();
    AddEdges();
    if (choose_formats) {
      for (const Task& task : fragment_.graph.tasks()) {
        fragment_.formats.emplace_back().Add(fragment_.graph, task);
      }
    }
    return std::move(fragment_);
  }

 private:
  // The slots of what all parts read. A device reads equal boxes of a tensor from one buffer.
  void AddReads() {
    std::vector<int32_t> reads(op_.inputs.size(), 0);  // of each tensor, by its first input
    std::vector<std::vector<BufferId>> known(static_cast<size_t>(options_.devices));  // by device
    for (size_t p = 0; p < parts_.size(); ++p) {
      const Part& part = parts_[p];
      for (size_t k = 0; k < op_.inputs.size(); ++k) {
        const TensorView& view = part.view.operands[k];
        input_slots_.push_back(kNoBuffer);
        if (!IsPiece(view)) continue;
        const TensorId tensor = op_.inputs[k];
        const auto first = std::find(op_.inputs.begin(), op_.inputs.end(), tensor);
        const auto input = static_cast<int32_t>(first - op_.inputs.begin());
        const int32_t place = reads[static_cast<size_t>(input)]++;
        if (op_.inputs.size() == 1 || (TakesGradient(op_.attrs) && k == kGradientInput)) {
          fragment_.reading_task.push_back(static_cast<int32_t>(p));
        }
        std::vector<BufferId>& here = known[part.device.index()];
        const auto it = std::find_if(here.begin(), here.end(), [&](BufferId id) {
          const Buffer& buffer = builder_.buffer(id);
          return buffer.tensor == tensor && buffer.box == view.box;
        });
        if (it != here.end()) {
          input_slots_.back() = *it;
          continue;
        }
        here.push_back(AddPiece(tensor, view.box, part.device));
        fragment_.reads.push_back({input, place});
        input_slots_.back() = here.back();
      }
    }
  }

  // The slots of persistent pieces that the operator's results may overwrite.
  void AddKept() {
    if (layout_ == nullptr) return;
    for (size_t k = 0; k < op_.outputs.size(); ++k) {
      const TensorId output = op_.outputs[k];
      const Tensor& next = graph_.tensor(output);
      if (next.kind != TensorKind::kNext) continue;
      const Tensor& now = graph_.tensor(next.of);
      const auto& pieces = PersistentPieces(now, *layout_);
      for (size_t p = 0; p < pieces.size(); ++p) {
        const BufferId slot = builder_.AddBuffer(PersistentBuffer(now, pieces[p]));
        fragment_.kept.push_back({static_cast<int32_t>(k), static_cast<int32_t>(p)});
        const size_t device = pieces[p].device.index();
        if (last_kept_.size() <= device) last_kept_.resize(device + 1, -1);
        const auto number = static_cast<int32_t>(kept_slots_.size());
        const int32_t before = std::exchange(last_kept_[device], number);
        kept_slots_.push_back({output, pieces[p], slot, before});
      }
    }
  }

  BufferId AddPiece(TensorId tensor, const Box& box, DeviceId device) {
    return builder_.AddBuffer({.device = device,
                               .kind = BufferKind::kActivation,
                               .tensor = tensor,
                               .dtype = ElementTypeOf(options_, op_, graph_.tensor(tensor)),
                               .box = box});
  }

  // The last persistent piece that is the view, on the device.
  BufferId KeptSlot(TensorId output, const Box& box, DeviceId device) const {
    if (device.index() >= last_kept_.size()) return kNoBuffer;
    for (int32_t k = last_kept_[device.index()]; k >= 0;) {
      const Overwritable& kept = kept_slots_[static_cast<size_t>(k)];
      if (kept.output == output && kept.piece.box == box) return kept.slot;
      k = kept.before;
    }
    return kNoBuffer;
  }

  BufferId OutputSlot(size_t k, int32_t task) {
    const Part& part = parts_[static_cast<size_t>(task)];
    const TensorView& view = part.view.results[k];
    if (!IsPiece(view)) return kNoBuffer;
    BufferId slot = KeptSlot(op_.outputs[k], view.box, part.device);
    if (slot == kNoBuffer) slot = AddPiece(op_.outputs[k], view.box, part.device);
    fragment_.results[k].push_back({task, slot.value()});
    return slot;
  }

  static std::vector<Box> BoxesOf(const std::vector<TensorView>& views) {
    std::vector<Box> boxes;
    boxes.reserve(views.size());
    for (const TensorView& view : views) boxes.push_back(view.box);
    return boxes;
  }

  void AddKernel(int32_t number) {
    const Part& part = parts_[static_cast<size_t>(number)];
    ComputeTask task{.device = part.device, .op = op_.id, .part = part.index};
    const auto first = input_slots_.begin() + number * static_cast<int64_t>(op_.inputs.size());
    task.inputs.assign(first, first + static_cast<int64_t>(op_.inputs.size()));
    task.outputs.reserve(op_.outputs.size());
    for (size_t k = 0; k < op_.outputs.size(); ++k) task.outputs.push_back(OutputSlot(k, number));
    if (!outlines_) {
      task.input_boxes = BoxesOf(part.view.operands);
      task.output_boxes = BoxesOf(part.view.results);
    }
    task.signature = builder_.AddSignature(kernels_.Of(part));
    fragment_.devices.push_back(part.device);
    builder_.AddTask(
        {false, op_.id.value(), 0, TaskKey::Phase::kCompute, part.index, part.device.value()},
        std::move(task));
  }

  void AddEdges() {
    for (const Task& task : fragment_.graph.tasks()) {
      for (OpId before : op_.after) {
        fragment_.edges.push_back({task.id, before, fragment_.devices[task.id.index()]});
      }
    }
  }

  struct Overwritable {
    TensorId output;
    PlacedBox piece;
    BufferId slot;
    int32_t before;  // place of the one before it on its device; -1: none
  };

  const Graph& graph_;
  const Operator& op_;
  const std::span<const Part> parts_;
  const WeightLayouts* const layout_;
  const bool outlines_;
  const PartitionOptions& options_;
  PartKernels kernels_;
  TaskGraphBuilder builder_;
  OperatorFragment fragment_;
  std::vector<BufferId> input_slots_;  // by part and input
  std::vector<Overwritable> kept_slots_;
  std::vector<int32_t> last_kept_;  // place of a device's last one, indexed by device; -1: none
};

}  // namespace

PartKernels::PartKernels(const Graph& graph, const Operator& op, const PartitionOptions& options)
    : graph_(graph),
      op_(op),
      options_(options),
      forward_inputs_(graph.InputShapes(graph.op(op.forward))),
      forward_outputs_(graph.OutputShapes(graph.op(op.forward))),
      forward_(graph.rule(op.forward), forward_inputs_, forward_outputs_) {}

// A gradient's attributes are local to the same block of its forward operator.
KernelSignature PartKernels::Of(const Part& part) {
  KernelSignature signature;
  if (op_.pass.is_forward()) {
    signature.attrs = Localize(op_.attrs, part.view);
  } else {
    const absl::Status status = forward_.Find(part.view.blocks);
    CHECK(status.ok()) << status;
    signature.attrs = Localize(op_.attrs, forward_.view());
  }
  signature.pass = op_.pass;
  signature.inputs.reserve(op_.inputs.size());
  signature.outputs.reserve(op_.outputs.size());
  for (size_t k = 0; k < op_.inputs.size(); ++k) {
    signature.inputs.push_back(PieceOf(op_.inputs[k], part.view.operands[k]));
  }
  for (size_t k = 0; k < op_.outputs.size(); ++k) {
    signature.outputs.push_back(PieceOf(op_.outputs[k], part.view.results[k]));
  }
  const size_t device = part.device.index();
  if (!options_.precision_of_device.empty()) {
    signature = InPrecision(std::move(signature), options_.precision_of_device[device]);
  }
  const auto& nondeterministic = options_.nondeterministic_of_device;
  if (part.is_copy || nondeterministic.empty() || !nondeterministic[device]) return signature;
  return WithDeterminism(std::move(signature), false);
}

KernelTensor PartKernels::PieceOf(TensorId tensor, const TensorView& view) const {
  const DType dtype = ElementTypeOf(options_, op_, graph_.tensor(tensor));
  return {{dtype, view.box.shape()}, Format::kDense, view.present};
}

OperatorFragment MakeOperatorFragment(const Graph& graph, const Operator& op,
                                      std::span<const Part> parts, const OperatorSetting& setting,
                                      const PartitionOptions& options) {
  return OperatorFragmentMaker(graph, op, parts, setting, options).Run(options.native_formats);
}

DType ElementTypeOf(const PartitionOptions& options, const Operator& op, const Tensor& tensor) {
  const DType own = tensor.type.dtype;
  const bool is_update = op.anchor_weight != kNoTensor;
  if (options.element_types.empty() || is_update || !IsReal(own)) return own;
  return options.element_types[op.id.index()];
}

int32_t ConsumerPlace(const Graph& graph, TensorId tensor, OpId op) {
  const auto consumers = graph.consumers(tensor);
  return static_cast<int32_t>(std::lower_bound(consumers.begin(), consumers.end(), op) -
                              consumers.begin());
}

const std::vector<PlacedBox>& PersistentPieces(const Tensor& tensor, const WeightLayouts& layout) {
  return tensor.kind == TensorKind::kState ? layout.update : layout.parameter;
}

Buffer PersistentBuffer(const Tensor& tensor, const PlacedBox& piece) {
  return {.device = piece.device,
          .kind = tensor.kind == TensorKind::kState ? BufferKind::kState : BufferKind::kWeight,
          .tensor = tensor.id,
          .dtype = tensor.type.dtype,
          .box = piece.box};
}

Fragment MakeStore(const Tensor& tensor, const WeightLayouts& layout, int devices) {
  TaskGraphBuilder builder(devices);
  for (const PlacedBox& piece : PersistentPieces(tensor, layout)) {
    builder.AddBuffer(PersistentBuffer(tensor, piece));
  }
  return {std::move(builder).Build()};
}

}  // namespace partita

// Partition walks the operators in order. For each operator: (1) its parts become compute tasks
// that read the demand buffers of their inputs and write piece buffers; (2) after the last producer
// of a tensor, the tensor's exchange makes the demand buffers of all its consumers. Persistent
// tensors start with pieces (the weights' parameter layouts, the states' update layouts); the next
// value of each is exchanged back into them.
#include "graph/task/partition.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/parallel/parts.h"
#include "graph/parallel/weight_layouts.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "graph/task/exchange_tasks.h"
#include "graph/task/formats.h"
#include "graph/task/fusion.h"

namespace partita {
namespace {

// A tensor's pieces and demands while the graph is built.
struct TensorState {
  std::vector<Piece> pieces;
  std::vector<BufferId> piece_buffers;
  std::vector<Demand> demands;
  std::vector<BufferId> demand_buffers;
  absl::flat_hash_map<std::pair<Box, DeviceId>, int32_t> demand_index;
  Combine combine = Combine::kSum;
  bool exchanged = false;

  int32_t AddDemand(const Box& box, DeviceId device) {
    const auto [it, added] =
        demand_index.try_emplace({box, device}, static_cast<int32_t>(demands.size()));
    if (added) {
      demands.push_back({box, device});
      demand_buffers.push_back(kNoBuffer);
    }
    return it->second;
  }
};

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Strategy& strategy, const PartitionOptions& options)
      : graph_(graph), strategy_(strategy), options_(options), builder_(options.devices) {}

  absl::StatusOr<TaskGraph> Run() {
    RETURN_IF_ERROR(ValidateSizes(graph_, strategy_, options_.devices));
    RETURN_IF_ERROR(FindParts());
    states_.resize(graph_.tensors().size());
    AddPersistentPieces();
    CollectDemands();
    for (const Operator& op : graph_.ops()) {
      for (TensorId input : op.inputs) Exchanged(input);
      AddComputes(op);
      for (TensorId output : op.outputs) {
        if (graph_.producers(output).back() == op.id) Exchanged(output);
      }
    }
    for (TensorId id : HostTensors()) {
      Exchanged(id);
      const TensorState& state = states_[id.index()];
      const auto it =
          state.demand_index.find({Box::Full(graph_.tensor(id).type.shape), strategy_.host_device});
      builder_.AddOutput(id, state.demand_buffers[static_cast<size_t>(it->second)]);
    }
    TaskGraph graph = std::move(builder_).Build();
    if (options_.fuse) graph = FuseActivations(graph);
    if (options_.native_formats) graph = AssignFormats(graph);
    return graph;
  }

 private:
  absl::Status FindParts() {
    parts_.resize(graph_.ops().size());
    for (const Operator& op : graph_.ops()) {
      if (op.anchor == kNoOp) continue;
      ASSIGN_OR_RETURN(parts_[op.id.index()],
                       PartsOf(graph_, op, strategy_.configs[op.anchor.index()]));
    }
    layouts_ = ResolveWeightLayouts(graph_, strategy_, parts_);
    for (const Operator& op : graph_.ops()) {
      if (op.anchor != kNoOp) continue;
      ASSIGN_OR_RETURN(parts_[op.id.index()],
                       UpdateParts(graph_, op, LayoutOf(op.anchor_weight).update));
    }
    return absl::OkStatus();
  }

  const WeightLayouts& LayoutOf(TensorId weight) const {
    for (size_t w = 0; w < layouts_.size(); ++w) {
      if (graph_.weights()[w].tensor == weight) return layouts_[w];
    }
    CHECK(false) << "not a weight";
    return layouts_[0];
  }

  void AddPersistentPieces() {
    for (const Tensor& tensor : graph_.tensors()) {
      if (tensor.kind == TensorKind::kWeight) {
        AddPersistent(tensor, BufferKind::kWeight, LayoutOf(tensor.id).parameter);
      } else if (tensor.kind == TensorKind::kState) {
        AddPersistent(tensor, BufferKind::kState, LayoutOf(tensor.of).update);
      }
    }
  }

  void AddPersistent(const Tensor& tensor, BufferKind kind, const std::vector<PlacedBox>& layout) {
    TensorState& state = states_[tensor.id.index()];
    for (const PlacedBox& piece : layout) {
      state.pieces.push_back({piece.box, piece.device, 0});
      state.piece_buffers.push_back(builder_.AddBuffer({.device = piece.device,
                                                        .kind = kind,
                                                        .tensor = tensor.id,
                                                        .dtype = tensor.type.dtype,
                                                        .box = piece.box}));
    }
  }

  std::vector<TensorId> HostTensors() const {
    std::vector<TensorId> ids = options_.extra_outputs;
    if (graph_.loss() != kNoTensor) ids.push_back(graph_.loss());
    if (graph_.correct() != kNoTensor) ids.push_back(graph_.correct());
    return ids;
  }

  void CollectDemands() {
    for (const Operator& op : graph_.ops()) {
      for (const Part& part : parts_[op.id.index()]) {
        for (size_t k = 0; k < op.inputs.size(); ++k) {
          const TensorView& view = part.view.operands[k];
          if (!view.present || view.box.empty()) continue;
          states_[op.inputs[k].index()].AddDemand(view.box, part.device);
        }
      }
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        states_[op.outputs[k].index()].combine = graph_.rule(op.id).results[k].combine;
      }
    }
    for (TensorId id : HostTensors()) {
      states_[id.index()].AddDemand(Box::Full(graph_.tensor(id).type.shape), strategy_.host_device);
    }
    // The next value of a persistent tensor is wanted in each of its pieces.
    for (const Tensor& tensor : graph_.tensors()) {
      if (tensor.kind != TensorKind::kNext) continue;
      TensorState& next = states_[tensor.id.index()];
      const TensorState& now = states_[tensor.of.index()];
      for (size_t p = 0; p < now.pieces.size(); ++p) {
        const int32_t j = next.AddDemand(now.pieces[p].box, now.pieces[p].device);
        next.demand_buffers[static_cast<size_t>(j)] = now.piece_buffers[p];
      }
    }
  }

  void Exchanged(TensorId id) {
    TensorState& state = states_[id.index()];
    if (state.exchanged || state.demands.empty()) return;
    state.exchanged = true;
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.kind == TensorKind::kInput || tensor.kind == TensorKind::kLabels ||
        tensor.kind == TensorKind::kSeed) {
      return AddLoads(tensor, state);
    }
    TensorExchange x{id,
                     tensor.type.dtype,
                     state.pieces,
                     state.piece_buffers,
                     state.demands,
                     state.demand_buffers};
    ExchangeTaskOptions options{{.combine = state.combine,
                                 .node_of_device = options_.node_of_device,
                                 .collectives = options_.collectives},
                                options_.algorithm};
    AddExchangeTasks(x, options, builder_);
    state.demand_buffers = std::move(x.demand_buffers);
  }

  void AddLoads(const Tensor& tensor, TensorState& state) {
    for (size_t j = 0; j < state.demands.size(); ++j) {
      const DeviceId device = state.demands[j].device;
      const BufferId buffer = builder_.AddBuffer({.device = device,
                                                  .kind = BufferKind::kHostInput,
                                                  .tensor = tensor.id,
                                                  .dtype = tensor.type.dtype,
                                                  .box = state.demands[j].box});
      state.demand_buffers[j] = buffer;
      builder_.AddTask({true, tensor.id.value(), 0, TaskKey::Phase::kLoad, device.value(),
                        static_cast<int32_t>(j)},
                       LoadTask{device, buffer});
    }
  }

  BufferId InputBuffer(TensorId id, const TensorView& view, DeviceId device) {
    if (!view.present || view.box.empty()) return kNoBuffer;
    TensorState& state = states_[id.index()];
    const int32_t j = state.demand_index.at({view.box, device});
    return state.demand_buffers[static_cast<size_t>(j)];
  }

  // The buffer that a part writes. An update writes its persistent piece in place where it has one.
  BufferId OutputBuffer(const Operator& op, size_t k, const Part& part) {
    const TensorView& view = part.view.results[k];
    if (!view.present || view.box.empty()) return kNoBuffer;
    const Tensor& tensor = graph_.tensor(op.outputs[k]);
    TensorState& state = states_[tensor.id.index()];
    BufferId buffer = kNoBuffer;
    if (tensor.kind == TensorKind::kNext) {
      const auto it = state.demand_index.find({view.box, part.device});
      if (it != state.demand_index.end()) {
        buffer = state.demand_buffers[static_cast<size_t>(it->second)];
      }
    }
    if (buffer == kNoBuffer) {
      buffer = builder_.AddBuffer({.device = part.device,
                                   .kind = BufferKind::kActivation,
                                   .tensor = tensor.id,
                                   .dtype = tensor.type.dtype,
                                   .box = view.box});
    }
    // All pieces of a next value are copies of one term; other terms are told apart by operator and
    // block.
    const int64_t term = tensor.kind == TensorKind::kNext ? 0 : TermOf(tensor.id, op, part);
    state.pieces.push_back({view.box, part.device, term});
    state.piece_buffers.push_back(buffer);
    return buffer;
  }

  // Terms of one tensor, numbered over (producer, block).
  int64_t TermOf(TensorId id, const Operator& op, const Part& part) {
    const auto& producers = graph_.producers(id);
    const auto place = std::find(producers.begin(), producers.end(), op.id) - producers.begin();
    return static_cast<int64_t>(place) * (1 << 24) + part.term;
  }

  void AddComputes(const Operator& op) {
    const Operator& forward = graph_.op(op.forward);
    const ForwardShapes shapes{graph_.InputShapes(forward), graph_.OutputShapes(forward)};
    for (const Part& part : parts_[op.id.index()]) AddCompute(op, part, shapes);
  }

  struct ForwardShapes {
    std::vector<Shape> inputs, outputs;
  };

  void AddCompute(const Operator& op, const Part& part, const ForwardShapes& shapes) {
    ComputeTask task{.device = part.device, .op = op.id, .part = part.index};
    task.inputs.reserve(op.inputs.size());
    task.input_boxes.reserve(op.inputs.size());
    KernelSignature signature;
    signature.inputs.reserve(op.inputs.size());
    signature.attrs = op.pass.is_forward() ? Localize(op.attrs, part.view)
                                           : Localize(op.attrs, ForwardView(op, part, shapes));
    signature.pass = op.pass;
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      const TensorView& view = part.view.operands[k];
      const DType dtype = graph_.tensor(op.inputs[k]).type.dtype;
      task.inputs.push_back(InputBuffer(op.inputs[k], view, part.device));
      task.input_boxes.push_back(view.box);
      signature.inputs.push_back({{dtype, view.box.shape()}, Format::kDense, view.present});
    }
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const TensorView& view = part.view.results[k];
      const DType dtype = graph_.tensor(op.outputs[k]).type.dtype;
      task.outputs.push_back(OutputBuffer(op, k, part));
      task.output_boxes.push_back(view.box);
      signature.outputs.push_back({{dtype, view.box.shape()}, Format::kDense, view.present});
    }
    task.signature = builder_.AddSignature(signature);
    builder_.AddTask(
        {false, op.id.value(), 0, TaskKey::Phase::kCompute, part.index, part.device.value()},
        std::move(task));
  }

  // A gradient's attributes are local to the same block of its forward operator.
  PartView ForwardView(const Operator& op, const Part& part, const ForwardShapes& shapes) const {
    auto view = ViewPart(graph_.rule(op.forward), shapes.inputs, shapes.outputs, part.view.blocks);
    CHECK(view.ok()) << view.status();
    return *std::move(view);
  }

  const Graph& graph_;
  const Strategy& strategy_;
  const PartitionOptions& options_;
  TaskGraphBuilder builder_;
  std::vector<std::vector<Part>> parts_;
  std::vector<WeightLayouts> layouts_;
  std::vector<TensorState> states_;
};

}  // namespace

absl::StatusOr<TaskGraph> Partition(const Graph& graph, const Strategy& strategy,
                                    const PartitionOptions& options) {
  return Partitioner(graph, strategy, options).Run();
}

}  // namespace partita

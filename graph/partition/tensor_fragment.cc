#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "graph/partition/exchange_tasks.h"
#include "graph/partition/fragment.h"

namespace partita {
namespace {

// Numbers of terms of one producer lie below this.
constexpr int64_t kTermsPerProducer = 1 << 24;

bool IsPiece(const TensorView& view) { return view.present && !view.box.empty(); }

class TensorFragmentMaker {
 public:
  TensorFragmentMaker(const Graph& graph, const Tensor& tensor, PartsByOp parts,
                      const WeightLayouts* layout, const PartitionOptions& options)
      : graph_(graph),
        tensor_(tensor),
        parts_(parts),
        layout_(layout),
        options_(options),
        builder_(options.devices) {
    x_.tensor = tensor.id;
    x_.dtype = tensor.type.dtype;
  }

  TensorFragment Run(DeviceId host_device) {
    AddReads();
    AddHostRead(host_device);
    AddPersistentPieces();
    AddProducedPieces();
    fragment_.outer = builder_.buffers();
    if (!x_.demands.empty()) AddTasks();
    for (const int32_t j : demand_of_read_) {
      fragment_.read_slots.push_back(x_.demand_buffers[static_cast<size_t>(j)].value());
    }
    if (host_demand_ >= 0) {
      fragment_.host_slot = x_.demand_buffers[static_cast<size_t>(host_demand_)].value();
    }
    fragment_.graph = std::move(builder_).Build();
    FindLoneReads();
    if (options_.native_formats) {
      for (const Task& task : fragment_.graph.tasks()) {
        fragment_.formats.Add(fragment_.graph, task, options_.class_of_device);
      }
    }
    return std::move(fragment_);
  }

 private:
  int32_t AddDemand(const Box& box, DeviceId device) {
    const auto [it, added] =
        demand_index_.try_emplace({box, device}, static_cast<int32_t>(x_.demands.size()));
    if (added) {
      x_.demands.push_back({box, device});
      x_.demand_buffers.push_back(kNoBuffer);
    }
    return it->second;
  }

  void AddReads() {
    for (OpId id : graph_.consumers(tensor_.id)) {
      fragment_.read_begin.push_back(static_cast<int32_t>(demand_of_read_.size()));
      const Operator& op = graph_.op(id);
      for (const Part& part : parts_[id.index()]) {
        for (size_t k = 0; k < op.inputs.size(); ++k) {
          const TensorView& view = part.view.operands[k];
          if (op.inputs[k] != tensor_.id || !IsPiece(view)) continue;
          demand_of_read_.push_back(AddDemand(view.box, part.device));
        }
      }
    }
    fragment_.read_begin.push_back(static_cast<int32_t>(demand_of_read_.size()));
  }

  void AddHostRead(DeviceId host_device) {
    const std::vector<TensorId> ids = HostTensors(graph_, options_);
    if (std::find(ids.begin(), ids.end(), tensor_.id) == ids.end()) return;
    host_demand_ = AddDemand(Box::Full(tensor_.type.shape), host_device);
  }

  // What a persistent tensor starts from; where its next value is wanted.
  void AddPersistentPieces() {
    if (layout_ == nullptr) return;
    const bool is_next = tensor_.kind == TensorKind::kNext;
    const Tensor& stored = is_next ? graph_.tensor(tensor_.of) : tensor_;
    for (const PlacedBox& piece : PersistentPieces(stored, *layout_)) {
      const BufferId slot = builder_.AddBuffer(PersistentBuffer(stored, piece));
      if (is_next) {
        const int32_t j = AddDemand(piece.box, piece.device);
        x_.demand_buffers[static_cast<size_t>(j)] = slot;
      } else {
        x_.pieces.push_back({piece.box, piece.device, 0});
        x_.piece_buffers.push_back(slot);
      }
    }
  }

  void AddProducedPieces() {
    const auto producers = graph_.producers(tensor_.id);
    for (size_t place = 0; place < producers.size(); ++place) {
      const Operator& op = graph_.op(producers[place]);
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        if (op.outputs[k] != tensor_.id) continue;
        reduction_ = graph_.rule(op.id).results[k].reduction;
        for (const Part& part : parts_[op.id.index()]) {
          if (IsPiece(part.view.results[k])) AddProducedPiece(part, k, place);
        }
      }
    }
  }

  // All pieces of a next value are copies of one term; other terms are told apart by operator and
  // block.
  void AddProducedPiece(const Part& part, size_t k, size_t producer) {
    const Box& box = part.view.results[k].box;
    const bool is_next = tensor_.kind == TensorKind::kNext;
    const BufferId slot = builder_.AddBuffer({.device = part.device,
                                              .kind = BufferKind::kActivation,
                                              .tensor = tensor_.id,
                                              .dtype = tensor_.type.dtype,
                                              .box = box});
    x_.pieces.push_back(
        {box, part.device,
         is_next ? 0 : static_cast<int64_t>(producer) * kTermsPerProducer + part.term});
    x_.piece_buffers.push_back(slot);
    if (!is_next) return;
    // Made in place?
    const auto it = demand_index_.find({box, part.device});
    if (it == demand_index_.end()) return;
    const BufferId kept = x_.demand_buffers[static_cast<size_t>(it->second)];
    if (kept != kNoBuffer) x_.piece_buffers.back() = kept;
  }

  void AddTasks() {
    if (tensor_.kind == TensorKind::kInput || tensor_.kind == TensorKind::kLabels ||
        tensor_.kind == TensorKind::kSeed) {
      return AddLoads();
    }
    KeepForHost();
    AddExchangeTasks(x_,
                     {{.reduction = reduction_,
                       .node_of_device = options_.node_of_device,
                       .collectives = options_.collectives},
                      options_.algorithm},
                     builder_);
  }

  // The host reads when the step has ended. What persists is then overwritten, so a value from the
  // step's start gets a buffer of its own.
  void KeepForHost() {
    const bool persists = tensor_.kind == TensorKind::kWeight || tensor_.kind == TensorKind::kState;
    if (!persists || host_demand_ < 0) return;
    const Demand& demand = x_.demands[static_cast<size_t>(host_demand_)];
    if (demand.box.empty()) return;
    x_.demand_buffers[static_cast<size_t>(host_demand_)] =
        builder_.AddBuffer({.device = demand.device,
                            .kind = BufferKind::kActivation,
                            .tensor = tensor_.id,
                            .dtype = tensor_.type.dtype,
                            .box = demand.box});
  }

  void AddLoads() {
    for (size_t j = 0; j < x_.demands.size(); ++j) {
      const DeviceId device = x_.demands[j].device;
      x_.demand_buffers[j] = builder_.AddBuffer({.device = device,
                                                 .kind = BufferKind::kHostInput,
                                                 .tensor = tensor_.id,
                                                 .dtype = tensor_.type.dtype,
                                                 .box = x_.demands[j].box});
      builder_.AddTask({true, tensor_.id.value(), 0, TaskKey::Phase::kLoad, device.value(),
                        static_cast<int32_t>(j)},
                       LoadTask{device, x_.demand_buffers[j]});
    }
  }

  void FindLoneReads() {
    std::vector<int32_t> uses(static_cast<size_t>(fragment_.slots()), 0);
    for (const int32_t slot : fragment_.read_slots) {
      if (slot >= 0) ++uses[static_cast<size_t>(slot)];
    }
    if (fragment_.host_slot >= 0) ++uses[static_cast<size_t>(fragment_.host_slot)];
    for (const Task& task : fragment_.graph.tasks()) {
      const Access access = AccessOf(task);
      for (BufferId slot : access.reads) ++uses[slot.index()];
      for (BufferId slot : access.writes) ++uses[slot.index()];
    }
    for (const int32_t slot : fragment_.read_slots) {
      const bool is_lone =
          slot >= 0 && slot < fragment_.outer && uses[static_cast<size_t>(slot)] == 1;
      fragment_.lone_reads.push_back(is_lone ? slot : -1);
    }
  }

  const Graph& graph_;
  const Tensor& tensor_;
  const PartsByOp parts_;
  const WeightLayouts* const layout_;
  const PartitionOptions& options_;
  TaskGraphBuilder builder_;
  TensorFragment fragment_;
  TensorExchange x_;
  Reduction reduction_ = Reduction::kSum;
  std::vector<int32_t> demand_of_read_;
  int32_t host_demand_ = -1;
  absl::flat_hash_map<std::pair<Box, DeviceId>, int32_t> demand_index_;
};

}  // namespace

TensorFragment MakeTensorFragment(const Graph& graph, const Tensor& tensor, PartsByOp parts,
                                  const WeightLayouts* layout, DeviceId host_device,
                                  const PartitionOptions& options) {
  return TensorFragmentMaker(graph, tensor, parts, layout, options).Run(host_device);
}

std::vector<TensorId> HostTensors(const Graph& graph, const PartitionOptions& options) {
  std::vector<TensorId> ids = options.extra_outputs;
  if (graph.loss() != kNoTensor) ids.push_back(graph.loss());
  if (graph.correct() != kNoTensor) ids.push_back(graph.correct());
  return ids;
}

}  // namespace partita

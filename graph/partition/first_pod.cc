#include "graph/partition/first_pod.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "graph/support/check.h"

namespace partita {
namespace {

bool IsFirst(DeviceId device, int pod_devices) { return device.value() < pod_devices; }

// Those of parts or placed boxes, in their order.
template <class Placed>
std::vector<Placed> OfFirstPod(std::span<const Placed> all, int pod_devices) {
  std::vector<Placed> first;
  std::ranges::copy_if(all, std::back_inserter(first), [pod_devices](const Placed& one) {
    return IsFirst(one.device, pod_devices);
  });
  return first;
}

// The least box around several.
class Hull {
 public:
  void Add(const Box& box) {
    if (!std::exchange(has_boxes_, true)) {
      dims_.assign(box.dims().begin(), box.dims().end());
      return;
    }
    for (size_t d = 0; d < dims_.size(); ++d) {
      const Interval& dim = box[static_cast<int>(d)];
      dims_[d] = {std::min(dims_[d].lo, dim.lo), std::max(dims_[d].hi, dim.hi)};
    }
  }
  bool IsApartFrom(const Hull& other) const {
    if (!has_boxes_ || !other.has_boxes_) return true;
    for (size_t d = 0; d < dims_.size(); ++d) {
      if (Intersect(dims_[d], other.dims_[d]).empty()) return true;
    }
    return false;
  }

 private:
  bool has_boxes_ = false;
  std::vector<Interval> dims_;
};

// A tensor's pieces, and the boxes that are read of it, by pods.
class PodBoxes {
 public:
  PodBoxes(const Graph& graph, const Tensor& tensor, int pod_devices)
      : graph_(graph),
        tensor_(tensor),
        pod_devices_(pod_devices),
        pieces_(static_cast<size_t>(pod_devices)) {}

  void AddMade(PartsByOp parts) {
    for (OpId id : graph_.producers(tensor_.id)) {
      const Operator& op = graph_.op(id);
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        if (op.outputs[k] != tensor_.id) continue;
        for (const Part& part : parts[id.index()]) {
          const TensorView& view = part.view.results[k];
          if (IsPiece(view)) AddPiece(view.box, part.device, TermOf(op, part));
        }
      }
    }
  }
  void AddRead(PartsByOp parts) {
    for (OpId id : graph_.consumers(tensor_.id)) {
      const Operator& op = graph_.op(id);
      for (size_t k = 0; k < op.inputs.size(); ++k) {
        if (op.inputs[k] != tensor_.id) continue;
        for (const Part& part : parts[id.index()]) {
          const TensorView& view = part.view.operands[k];
          if (IsPiece(view)) AddDemand(view.box, part.device);
        }
      }
    }
  }
  // Boxes between steps: where the tensor begins, or where its value has to end.
  void AddKept(std::span<const PlacedBox> kept) {
    for (const auto& [box, device] : kept) {
      if (tensor_.kind == TensorKind::kNext) {
        AddDemand(box, device);
      } else {
        AddPiece(box, device, 0);
      }
    }
  }

  bool AreApart() const { return first_.IsApartFrom(others_); }
  // Whether each demand is inside a piece of its device, of the one term that there is.
  bool AreHeld() const {
    return has_one_term_ && std::all_of(demands_.begin(), demands_.end(), [this](const auto& one) {
             const auto& pieces = pieces_[one.second.index()];
             return std::any_of(pieces.begin(), pieces.end(),
                                [&](const Box* piece) { return piece->Contains(*one.first); });
           });
  }

 private:
  // All pieces that updates make are of one term.
  int64_t TermOf(const Operator& op, const Part& part) const {
    if (op.anchor_weight != kNoTensor) return 0;
    return (int64_t{op.id.value()} << 32) + part.term + 1;
  }
  void AddPiece(const Box& box, DeviceId device, int64_t term) {
    (IsFirst(device, pod_devices_) ? first_ : others_).Add(box);
    has_one_term_ &= term_.value_or(term) == term;
    term_ = term;
    if (IsFirst(device, pod_devices_)) pieces_[device.index()].push_back(&box);
  }
  void AddDemand(const Box& box, DeviceId device) {
    (IsFirst(device, pod_devices_) ? first_ : others_).Add(box);
    if (IsFirst(device, pod_devices_)) demands_.emplace_back(&box, device);
  }

  const Graph& graph_;
  const Tensor& tensor_;
  const int pod_devices_;
  Hull first_, others_;
  std::vector<std::vector<const Box*>> pieces_;  // of the first pod, by device
  std::vector<std::pair<const Box*, DeviceId>> demands_;
  bool has_one_term_ = true;
  std::optional<int64_t> term_;  // of the last piece
};

// Gives buffers of the first pod other numbers, and all others none.
class Renumbering {
 public:
  explicit Renumbering(std::span<const BufferId> numbers) : numbers_(numbers) {}

  void operator()(ComputeTask&) const { CHECK(false) << "a kernel is in no exchange"; }
  void operator()(MoveTask& task) const {
    for (Move& move : task.moves) {
      Renumber(move.from.buffer);
      Renumber(move.to.buffer);
    }
    if (task.outline == nullptr) return;
    MoveOutline outline = *task.outline;
    for (BufferUse& use : outline.uses) Renumber(use.buffer);
    task.outline = std::make_shared<const MoveOutline>(std::move(outline));
  }
  void operator()(LoadTask& task) const { Renumber(task.buffer); }
  void operator()(CollectiveTask& task) const {
    for (Slice& slice : task.send) Renumber(slice.buffer);
    for (Slice& slice : task.receive) Renumber(slice.buffer);
  }
  void operator()(TransferTask& task) const {
    for (Transfer& transfer : task.transfers) {
      Renumber(transfer.send.buffer);
      Renumber(transfer.receive.buffer);
    }
  }

 private:
  void Renumber(BufferId& id) const {
    if (id != kNoBuffer) id = numbers_[id.index()];
  }

  const std::span<const BufferId> numbers_;
};

}  // namespace

std::vector<Part> PartsOfFirstPod(std::span<const Part> parts, int pod_devices) {
  return OfFirstPod(parts, pod_devices);
}

WeightLayouts LayoutsOfFirstPod(const WeightLayouts& layouts, int pod_devices) {
  return {OfFirstPod<PlacedBox>(layouts.parameter, pod_devices),
          OfFirstPod<PlacedBox>(layouts.update, pod_devices), layouts.prefetch};
}

bool StaysInPods(const Graph& graph, const Tensor& tensor, PartsByOp parts,
                 const TensorSetting& setting, int pod_devices) {
  if (IsLoaded(tensor)) return true;
  PodBoxes boxes(graph, tensor, pod_devices);
  if (setting.layouts != nullptr) {
    const bool is_next = tensor.kind == TensorKind::kNext;
    boxes.AddKept(PersistentPieces(is_next ? graph.tensor(tensor.of) : tensor, *setting.layouts));
  }
  boxes.AddMade(parts);
  boxes.AddRead(parts);
  return boxes.AreApart() || boxes.AreHeld();
}

FirstPodTasks TasksOfFirstPod(const TaskGraph& graph, int pod_devices) {
  FirstPodTasks first;
  TaskGraphBuilder builder(graph.devices(), false);
  for (const Buffer& buffer : graph.buffers()) {
    first.buffers.push_back(IsFirst(buffer.device, pod_devices) ? builder.AddBuffer(buffer)
                                                                : kNoBuffer);
  }
  const Renumbering renumber(first.buffers);
  for (const Task& task : graph.tasks()) {
    // Sorted.
    if (!IsFirst(DevicesOf(task).front(), pod_devices)) continue;
    TaskBody body = task.body;
    std::visit(renumber, body);
    builder.AddTask(task.key, std::move(body));
  }
  first.graph = std::move(builder).Build();
  return first;
}

}  // namespace partita

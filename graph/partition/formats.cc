#include "graph/partition/formats.h"

#include <algorithm>
#include <numeric>

namespace partita {
namespace {

class RuleFinder {
 public:
  RuleFinder(const TaskGraph& graph, std::span<const int32_t> class_of_device, FormatRules& rules)
      : graph_(graph), class_of_device_(class_of_device), rules_(rules) {}

  void operator()(const ComputeTask& task) {
    const KernelSignature& signature = graph_.signatures()[static_cast<size_t>(task.signature)];
    BufferId first = kNoBuffer;
    auto visit = [&](BufferId id, bool native) {
      if (id == kNoBuffer) return;
      if (!native) rules_.dense.push_back(id);
      if (!NeedsOneFormat(signature.attrs) || graph_.buffer(id).box.rank() != 4) return;
      if (first != kNoBuffer) rules_.equal.emplace_back(first, id);
      first = id;
    };
    for (size_t k = 0; k < task.inputs.size(); ++k) {
      visit(task.inputs[k], InputMayBeNative(signature.attrs, signature.pass, static_cast<int>(k)));
    }
    for (BufferId id : task.outputs) {
      visit(id, OutputMayBeNative(signature.attrs, signature.pass));
    }
  }

  void operator()(const MoveTask& task) {
    for (const Move& move : task.moves) {
      const bool whole = move.region == move.to.box && move.to.offset == 0 &&
                         graph_.buffer(move.to.buffer).box == move.to.box;
      if (move.kind == MoveSignature::Kind::kFill) {
        if (!whole) rules_.dense.push_back(move.to.buffer);
        continue;
      }
      const bool equal = whole && move.region == move.from.box && move.from.offset == 0 &&
                         graph_.buffer(move.from.buffer).box == move.from.box;
      if (equal && move.kind == MoveSignature::Kind::kReorder) continue;
      if (equal) {
        rules_.equal.emplace_back(move.from.buffer, move.to.buffer);
      } else {
        rules_.dense.push_back(move.from.buffer);
        rules_.dense.push_back(move.to.buffer);
      }
    }
  }

  void operator()(const LoadTask& task) { rules_.dense.push_back(task.buffer); }

  void operator()(const CollectiveTask& task) {
    const bool in_place = task.send == task.receive;
    bool whole = in_place && task.collective.kind == CollectiveKind::kAllReduce;
    for (const Slice& slice : task.send) {
      const Buffer& buffer = graph_.buffer(slice.buffer);
      const Buffer& first = graph_.buffer(task.send[0].buffer);
      whole = whole && slice.offset == 0 && slice.count == buffer.elements() &&
              buffer.box == first.box && ShareFormat(buffer.device, first.device);
    }
    for (const auto* list : {&task.send, &task.receive}) {
      for (const Slice& slice : *list) {
        if (whole) {
          rules_.equal.emplace_back(task.send[0].buffer, slice.buffer);
        } else {
          rules_.dense.push_back(slice.buffer);
        }
      }
    }
  }

  void operator()(const TransferTask& task) {
    // All slices of a task have one format.
    const bool shared = std::all_of(
        task.transfers.begin(), task.transfers.end(),
        [this](const Transfer& transfer) { return ShareFormat(transfer.from, transfer.to); });
    for (const Transfer& transfer : task.transfers) {
      const Buffer& from = graph_.buffer(transfer.send.buffer);
      const Buffer& to = graph_.buffer(transfer.receive.buffer);
      const bool equal = shared && from.box == to.box && transfer.send.count == from.elements() &&
                         transfer.receive.count == to.elements();
      if (equal) {
        rules_.equal.emplace_back(from.id, to.id);
      } else {
        rules_.dense.push_back(from.id);
        rules_.dense.push_back(to.id);
      }
    }
  }

 private:
  bool ShareFormat(DeviceId a, DeviceId b) const {
    return class_of_device_.empty() || class_of_device_[a.index()] == class_of_device_[b.index()];
  }

  const TaskGraph& graph_;
  const std::span<const int32_t> class_of_device_;
  FormatRules& rules_;
};

}  // namespace

void FormatRules::Add(const TaskGraph& graph, const Task& task,
                      std::span<const int32_t> class_of_device) {
  std::visit(RuleFinder(graph, class_of_device, *this), task.body);
}

bool MayBeNative(const Buffer& buffer) {
  return buffer.kind == BufferKind::kActivation && buffer.dtype == DType::kFloat32 &&
         buffer.box.rank() == 4;
}

FormatSets::FormatSets(size_t buffers) : parent_(buffers), dense_(buffers, false) {
  std::iota(parent_.begin(), parent_.end(), size_t{0});
}

void FormatSets::Join(BufferId a, BufferId b) {
  const size_t x = Find(a.index()), y = Find(b.index());
  if (x == y) return;
  parent_[x] = y;
  dense_[y] = dense_[x] || dense_[y];
}

size_t FormatSets::Find(size_t a) {
  while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];
  return a;
}

}  // namespace partita

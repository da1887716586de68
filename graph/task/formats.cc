#include "graph/task/formats.h"

#include <numeric>

namespace partita {
namespace {

// Sets of buffers that must have one format, with a veto on native.
class FormatSets {
 public:
  explicit FormatSets(size_t buffers) : parent_(buffers), dense_(buffers, false) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  void Join(BufferId a, BufferId b) {
    const size_t x = Find(a.index()), y = Find(b.index());
    if (x == y) return;
    parent_[x] = y;
    dense_[y] = dense_[x] || dense_[y];
  }
  void MakeDense(BufferId a) { dense_[Find(a.index())] = true; }
  bool IsDense(BufferId a) { return dense_[Find(a.index())]; }

 private:
  size_t Find(size_t a) {
    while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];
    return a;
  }
  std::vector<size_t> parent_;
  std::vector<bool> dense_;
};

class FormatChooser {
 public:
  explicit FormatChooser(const TaskGraph& graph) : graph_(graph), sets_(graph.buffers().size()) {}

  std::vector<Format> Run() {
    for (const Buffer& buffer : graph_.buffers()) {
      if (buffer.kind != BufferKind::kActivation || buffer.dtype != DType::kFloat32 ||
          buffer.box.rank() != 4) {
        sets_.MakeDense(buffer.id);
      }
    }
    for (const HostOutput& output : graph_.outputs()) sets_.MakeDense(output.buffer);
    for (const Task& task : graph_.tasks()) {
      std::visit([this](const auto& body) { Visit(body); }, task.body);
    }
    std::vector<Format> formats;
    for (const Buffer& buffer : graph_.buffers()) {
      formats.push_back(sets_.IsDense(buffer.id) ? Format::kDense : Format::kNative);
    }
    return formats;
  }

 private:
  void Visit(const ComputeTask& task) {
    const KernelSignature& signature = graph_.signatures()[static_cast<size_t>(task.signature)];
    BufferId first = kNoBuffer;
    auto visit = [&](BufferId id, bool native) {
      if (id == kNoBuffer) return;
      if (!native) sets_.MakeDense(id);
      if (!NeedsOneFormat(signature.attrs) || graph_.buffer(id).box.rank() != 4) return;
      if (first != kNoBuffer) sets_.Join(first, id);
      first = id;
    };
    for (size_t k = 0; k < task.inputs.size(); ++k) {
      visit(task.inputs[k], InputMayBeNative(signature.attrs, signature.pass, static_cast<int>(k)));
    }
    for (BufferId id : task.outputs) {
      visit(id, OutputMayBeNative(signature.attrs, signature.pass));
    }
  }

  void Visit(const MoveTask& task) {
    for (const Move& move : task.moves) {
      const bool whole = move.region == move.to.box && move.to.offset == 0 &&
                         graph_.buffer(move.to.buffer).box == move.to.box;
      if (move.kind == MoveSignature::Kind::kFill) {
        if (!whole) sets_.MakeDense(move.to.buffer);
        continue;
      }
      const bool equal = whole && move.region == move.from.box && move.from.offset == 0 &&
                         graph_.buffer(move.from.buffer).box == move.from.box;
      if (equal) {
        sets_.Join(move.from.buffer, move.to.buffer);
      } else {
        sets_.MakeDense(move.from.buffer);
        sets_.MakeDense(move.to.buffer);
      }
    }
  }

  void Visit(const LoadTask& task) { sets_.MakeDense(task.buffer); }

  void Visit(const CollectiveTask& task) {
    const bool in_place = task.send == task.receive;
    bool whole = in_place && task.collective.kind == CollectiveKind::kAllReduce;
    for (const Slice& slice : task.send) {
      const Buffer& buffer = graph_.buffer(slice.buffer);
      whole = whole && slice.offset == 0 && slice.count == buffer.elements() &&
              buffer.box == graph_.buffer(task.send[0].buffer).box;
    }
    for (const auto* list : {&task.send, &task.receive}) {
      for (const Slice& slice : *list) {
        if (whole) {
          sets_.Join(task.send[0].buffer, slice.buffer);
        } else {
          sets_.MakeDense(slice.buffer);
        }
      }
    }
  }

  void Visit(const TransferTask& task) {
    for (const Transfer& transfer : task.transfers) {
      const Buffer& from = graph_.buffer(transfer.send.buffer);
      const Buffer& to = graph_.buffer(transfer.receive.buffer);
      const bool equal = from.box == to.box && transfer.send.count == from.elements() &&
                         transfer.receive.count == to.elements();
      if (equal) {
        sets_.Join(from.id, to.id);
      } else {
        sets_.MakeDense(from.id);
        sets_.MakeDense(to.id);
      }
    }
  }

  const TaskGraph& graph_;
  FormatSets sets_;
};

}  // namespace

TaskGraph AssignFormats(const TaskGraph& graph) {
  const std::vector<Format> formats = FormatChooser(graph).Run();
  TaskGraphBuilder builder(graph.devices());
  for (Buffer buffer : graph.buffers()) {
    buffer.format = formats[buffer.id.index()];
    builder.AddBuffer(std::move(buffer));
  }
  for (const Task& task : graph.tasks()) {
    TaskBody body = task.body;
    if (auto* compute = std::get_if<ComputeTask>(&body)) {
      KernelSignature signature = graph.signatures()[static_cast<size_t>(compute->signature)];
      for (size_t k = 0; k < compute->inputs.size(); ++k) {
        const BufferId id = compute->inputs[k];
        if (id != kNoBuffer) signature.inputs[k].format = formats[id.index()];
      }
      for (size_t k = 0; k < compute->outputs.size(); ++k) {
        const BufferId id = compute->outputs[k];
        if (id != kNoBuffer) signature.outputs[k].format = formats[id.index()];
      }
      compute->signature = builder.AddSignature(signature);
    }
    builder.AddTask(task.key, std::move(body));
  }
  for (const HostOutput& output : graph.outputs()) builder.AddOutput(output.tensor, output.buffer);
  return std::move(builder).Build();
}

}  // namespace partita

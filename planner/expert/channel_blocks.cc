#include "planner/expert/channel_blocks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/parallel/parts.h"
#include "graph/support/check.h"

namespace partita {
namespace {

// Vertices of a whole model, about: what partitioning it in a second allows.
constexpr int64_t kMostVertices = 4096;

// The loop of the channels: the second dimension of an image's result, the last of others; -1 if it
// cannot be split.
int LoopOfChannels(const Graph& graph, const Operator& op) {
  const std::vector<DimMap>& dims = graph.rule(op.id).results[0].dims;
  if (dims.size() < 2) return -1;
  for (int8_t loop : dims[dims.size() == 4 ? 1 : dims.size() - 1].loops) {
    const LoopDim& dim = graph.rule(op.id).loops[static_cast<size_t>(loop)];
    if (dim.extent > 1) return dim.splittable ? loop : -1;
  }
  return -1;
}

// The most equal blocks of up to `most`; `most` where that leaves fewer than half of them.
int64_t BlockCount(int64_t extent, int64_t most) {
  if (extent <= most) return extent;
  for (int64_t count = most; 2 * count > most; --count) {
    if (extent % count == 0) return count;
  }
  return most;
}

ParallelConfig InBlocks(const ShardingRule& rule, int loop, int32_t count) {
  ParallelConfig config = Unsplit(rule, DeviceId(0));
  if (loop >= 0) config.degrees[static_cast<size_t>(loop)] = count;
  config.devices.assign(static_cast<size_t>(count), DeviceId(0));
  return config;
}

int64_t OperationsOf(const Graph& graph, const Operator& op) {
  std::vector<TensorType> inputs, outputs;
  for (TensorId id : op.inputs) inputs.push_back(graph.tensor(id).type);
  for (TensorId id : op.outputs) outputs.push_back(graph.tensor(id).type);
  const Work work = WorkOf(op.attrs, Pass::Forward(), inputs, outputs);
  return work.multiply_adds + work.other;
}

}  // namespace

// Makes vertices front to back; nets when all are there.
class ChannelBlocksBuilder {
 public:
  ChannelBlocksBuilder(const Graph& graph, const SearchSpace& space, int64_t most_blocks)
      : graph_(graph), space_(space), produced_(graph.tensors().size()) {
    int64_t with_weights = 1;
    for (OpId id : graph.anchors()) with_weights += OwnVertices(graph.op(id));
    most_ = std::clamp<int64_t>(kMostVertices / with_weights, 1, most_blocks);
  }

  void Add(const Operator& op, ChannelBlocks::Blocks& blocks) {
    blocks.loop = LoopOfChannels(graph_, op);
    const ShardingRule& rule = graph_.rule(op.id);
    if (blocks.loop >= 0) {
      const int64_t extent = rule.loops[static_cast<size_t>(blocks.loop)].extent;
      blocks.count = static_cast<int32_t>(BlockCount(extent, most_));
    }
    auto parts = PartsOf(graph_, op, InBlocks(rule, blocks.loop, blocks.count));
    if (!parts.ok() || !space_.Fits(op.id, InBlocks(rule, blocks.loop, blocks.count)) ||
        parts->size() != static_cast<size_t>(blocks.count)) {
      blocks = {};
      parts = PartsOf(graph_, op, InBlocks(rule, -1, 1));
      CHECK(parts.ok()) << "an operator whole is no part";
    }
    blocks.first = FirstVertex(op, *parts);
    const int64_t operations = OperationsOf(graph_, op);
    for (int32_t k = 0; k < blocks.count; ++k) {
      const int64_t share = operations * (k + 1) / blocks.count - operations * k / blocks.count;
      weights_[static_cast<size_t>(blocks.first + k)] += share;
    }
    for (const Part& part : *parts) Connect(op, part, blocks.first + part.index);
  }

  Hypergraph Finish() && {
    std::vector<Hypergraph::Net> nets;
    for (auto* of_box : {&sent_, &read_}) {
      for (auto& [key, net] : *of_box) {
        std::sort(net.pins.begin(), net.pins.end());
        net.pins.erase(std::unique(net.pins.begin(), net.pins.end()), net.pins.end());
        nets.push_back(std::move(net));
      }
    }
    return Hypergraph(std::move(weights_), std::move(nets));
  }

 private:
  // What an operator leaves of a tensor.
  struct Piece {
    Box box;
    int32_t vertex;
  };

  // 1 for an operator that cannot share another's vertices.
  int64_t OwnVertices(const Operator& op) const { return Activations(op).size() == 1 ? 0 : 1; }

  std::vector<size_t> Activations(const Operator& op) const {
    std::vector<size_t> operands;
    bool weights = false;
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      weights |= graph_.tensor(op.inputs[k]).kind == TensorKind::kWeight;
      if (graph_.tensor(op.inputs[k]).kind == TensorKind::kActivation) operands.push_back(k);
    }
    if (weights) operands.clear();
    return operands;
  }

  // The vertices of what it reads if each part reads one piece, and all of it; otherwise new ones.
  int32_t FirstVertex(const Operator& op, const std::vector<Part>& parts) {
    const std::vector<size_t> operands = Activations(op);
    if (operands.size() == 1) {
      const std::vector<Piece>& pieces = produced_[op.inputs[operands[0]].index()];
      bool same = pieces.size() == parts.size();
      for (size_t p = 0; same && p < parts.size(); ++p) {
        same = parts[p].view.operands[operands[0]].box == pieces[p].box;
      }
      if (same && !pieces.empty()) return pieces[0].vertex;
    }
    const auto first = static_cast<int32_t>(weights_.size());
    weights_.resize(weights_.size() + parts.size(), 0);
    return first;
  }

  void Connect(const Operator& op, const Part& part, int32_t vertex) {
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      const TensorId id = op.inputs[k];
      const TensorView& view = part.view.operands[k];
      if (!view.present) continue;
      if (graph_.tensor(id).kind == TensorKind::kWeight) {
        Pin(read_[{id, view.box}], view.box, vertex);
      }
      for (const Piece& piece : produced_[id.index()]) {
        if (AreDisjoint(piece.box, view.box)) continue;
        Pin(sent_[{id, piece.box}], piece.box, vertex);
      }
    }
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const TensorView& view = part.view.results[k];
      if (!view.present) continue;
      produced_[op.outputs[k].index()].push_back({view.box, vertex});
      Pin(sent_[{op.outputs[k], view.box}], view.box, vertex);
    }
  }

  static void Pin(Hypergraph::Net& net, const Box& box, int32_t vertex) {
    net.cost = box.volume();
    net.pins.push_back(vertex);
  }

  const Graph& graph_;
  const SearchSpace& space_;
  int64_t most_ = 1;
  std::vector<int64_t> weights_;              // of vertices
  std::vector<std::vector<Piece>> produced_;  // of each tensor
  std::map<std::pair<TensorId, Box>, Hypergraph::Net> sent_, read_;
};

ChannelBlocks::ChannelBlocks(const Graph& graph, const SearchSpace& space, int64_t most_blocks)
    : graph_(graph), blocks_(graph.ops().size()) {
  ChannelBlocksBuilder builder(graph, space, most_blocks);
  for (OpId id : graph.anchors()) builder.Add(graph.op(id), blocks_[id.index()]);
  hypergraph_ = std::move(builder).Finish();
}

std::vector<int32_t> ChannelBlocks::InOrder(std::vector<int32_t> parts) const {
  std::vector<int32_t> ordered = parts;
  for (OpId id : graph_.anchors()) {
    const Blocks& blocks = blocks_[id.index()];
    std::sort(ordered.begin() + blocks.first, ordered.begin() + blocks.first + blocks.count);
  }
  const bool sends_more =
      ConnectivityMinusOne(hypergraph_, ordered) > ConnectivityMinusOne(hypergraph_, parts);
  return sends_more ? parts : ordered;
}

ParallelConfig ChannelBlocks::ConfigOf(const Operator& op,
                                       const std::vector<int32_t>& parts) const {
  const Blocks& blocks = blocks_[op.id.index()];
  const ShardingRule& rule = graph_.rule(op.id);
  const auto at = parts.begin() + blocks.first;
  // The longest runs of equal length that are each of one part and of whole blocks.
  const int64_t extent = blocks.loop < 0 ? 1 : rule.loops[static_cast<size_t>(blocks.loop)].extent;
  int32_t run = blocks.count;
  const auto fits = [&](int32_t length) {
    if (blocks.count % length != 0) return false;
    if (length > 1 && length < blocks.count && extent % blocks.count != 0) return false;
    for (int32_t k = 0; k < blocks.count; ++k) {
      if (at[k] != at[k - k % length]) return false;
    }
    return true;
  };
  while (!fits(run)) --run;
  ParallelConfig config = InBlocks(rule, blocks.loop, blocks.count / run);
  for (size_t p = 0; p < config.devices.size(); ++p) {
    config.devices[p] = DeviceId(at[static_cast<int64_t>(p) * run]);
  }
  return config;
}

}  // namespace partita

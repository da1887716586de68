#include "graph/partition/arrivals.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "graph/partition/windows.h"
#include "graph/support/sort.h"

namespace partita {
namespace {

// Boxes of one reader on one node that are compared with each other.
constexpr size_t kMostCompared = 16;

struct HeldPiece {
  const Box* box;
  int32_t node, device;
  int64_t term;  // of all producers
};

// Sums boxes of which something is lacking, that have nothing in common with those before; the largest
// single one counts at least.
class DisjointSum {
 public:
  void Add(const Box& box, int64_t elements) {
    if (elements == 0) return;
    largest_ = std::max(largest_, elements);
    if (taken_.size() == kMostCompared) return;
    const auto is_apart = [&](const Box* other) { return AreDisjoint(box, *other); };
    if (!std::all_of(taken_.begin(), taken_.end(), is_apart)) return;
    taken_.push_back(&box);
    sum_ += elements;
  }
  int64_t sum() const { return std::max(sum_, largest_); }

 private:
  absl::InlinedVector<const Box*, 4> taken_;
  int64_t sum_ = 0, largest_ = 0;
};

// The pieces that a tensor's producers make, ordered by node and device.
class Pieces {
 public:
  Pieces(const Graph& graph, const Tensor& tensor, PartsByOp parts,
         std::span<const int32_t> node_of_device) {
    int64_t first_term = 0;
    for (OpId id : graph.producers(tensor.id)) {
      const Operator& op = graph.op(id);
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        if (op.outputs[k] != tensor.id) continue;
        for (const Part& part : parts[id.index()]) {
          const TensorView& view = part.view.results[k];
          if (!view.present || view.box.empty()) continue;
          const int32_t node = node_of_device.empty() ? 0 : node_of_device[part.device.index()];
          list_.push_back({&view.box, node, part.device.value(), first_term + part.term});
        }
      }
      first_term += int64_t{1} << 32;
    }
    SortUnlessSorted(list_.begin(), list_.end(), [](const HeldPiece& a, const HeldPiece& b) {
      return std::tuple(a.node, a.device, a.term) < std::tuple(b.node, b.device, b.term);
    });
  }

  // Terms of which every element of the tensor is the sum at least: so many where all have as many, 1
  // where some have more. nullopt where some may have none, since the boxes of the terms are no grid.
  std::optional<int64_t> TermsOfElements(const Shape& shape) const {
    std::vector<HeldPiece> terms = list_;
    SortUnlessSorted(terms.begin(), terms.end(),
                     [](const HeldPiece& a, const HeldPiece& b) { return a.term < b.term; });
    terms.erase(
        std::unique(terms.begin(), terms.end(),
                    [](const HeldPiece& a, const HeldPiece& b) { return a.term == b.term; }),
        terms.end());
    // The place of each term's box in the grid.
    std::vector<size_t> cells(terms.size(), 0);
    size_t count = 1;
    bool overlap = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      std::vector<Interval> cuts;
      const auto dim = static_cast<int>(d);
      for (const HeldPiece& piece : terms) {
        const Interval cut = (*piece.box)[dim];
        if (cuts.empty() || cuts.back() != cut) cuts.push_back(cut);
      }
      SortUnlessSorted(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      if (!Cover(cuts, shape[d], overlap)) return std::nullopt;
      count *= cuts.size();
      if (count > terms.size()) return std::nullopt;
      for (size_t k = 0; k < terms.size(); ++k) {
        const auto at = std::lower_bound(cuts.begin(), cuts.end(), (*terms[k].box)[dim]);
        cells[k] = cells[k] * cuts.size() + static_cast<size_t>(at - cuts.begin());
      }
    }
    std::vector<int64_t> in_cell(count, 0);
    for (size_t cell : cells) ++in_cell[cell];
    const auto [least, most] = std::minmax_element(in_cell.begin(), in_cell.end());
    if (*least == 0) return std::nullopt;
    return overlap || *least < *most ? 1 : *least;
  }

  // Elements of the box that a device, or a node (device -1), may hold whole: all terms of them.
  int64_t Held(const Box& box, int32_t node, int32_t device, int64_t terms) const {
    const auto first = std::lower_bound(list_.begin(), list_.end(), std::pair(node, device),
                                        [](const HeldPiece& piece, const auto& from) {
                                          return std::pair(piece.node, piece.device) < from;
                                        });
    int64_t held = 0;
    for (auto it = first; it != list_.end() && it->node == node; ++it) {
      if (device >= 0 && it->device != device) break;
      held += CommonVolume(box, *it->box);
    }
    return held / terms;
  }

 private:
  // Whether the intervals, sorted, cover [0, extent). Notes where they cover each other.
  static bool Cover(const std::vector<Interval>& cuts, int64_t extent, bool& overlap) {
    int64_t end = 0;
    for (const Interval& cut : cuts) {
      if (cut.lo > end) return false;
      overlap |= cut.lo < end;
      end = std::max<int64_t>(end, cut.hi);
    }
    return end == extent;
  }

  std::vector<HeldPiece> list_;
};

// What the parts of one operator lack of one operand.
class Reader {
 public:
  Reader(const Pieces& pieces, int64_t terms, std::span<const int32_t> node_of_device,
         Arrivals& arrivals)
      : pieces_(pieces), terms_(terms), node_of_device_(node_of_device), arrivals_(arrivals) {}

  void Read(std::span<const Part> parts, size_t operand) {
    const size_t devices = arrivals_.at_device.size();
    std::vector<DisjointSum> at_device(devices), at_node(arrivals_.at_node.size());
    for (const Part& part : parts) {
      const TensorView& view = part.view.operands[operand];
      if (!view.present || view.box.empty()) continue;
      const size_t d = part.device.index();
      const int32_t n = node_of_device_.empty() ? 0 : node_of_device_[d];
      const int64_t all = view.box.volume();
      const int64_t here = pieces_.Held(view.box, n, part.device.value(), terms_);
      at_device[d].Add(view.box, std::max<int64_t>(0, all - here));
      // Nothing comes to the only node from others.
      if (arrivals_.at_node.size() == 1 || here >= all) continue;
      const int64_t in_node = pieces_.Held(view.box, n, -1, terms_);
      const int64_t lacking = std::max<int64_t>(0, all - in_node);
      at_node[static_cast<size_t>(n)].Add(view.box, lacking);
    }
    Raise(at_device, arrivals_.at_device);
    Raise(at_node, arrivals_.at_node);
  }

 private:
  static void Raise(const std::vector<DisjointSum>& sums, std::vector<int64_t>& least) {
    for (size_t k = 0; k < sums.size(); ++k) least[k] = std::max(least[k], sums[k].sum());
  }

  const Pieces& pieces_;
  const int64_t terms_;
  const std::span<const int32_t> node_of_device_;
  Arrivals& arrivals_;
};

}  // namespace

int32_t NodeCount(std::span<const int32_t> node_of_device) {
  int32_t nodes = 1;
  for (int32_t node : node_of_device) nodes = std::max(nodes, node + 1);
  return nodes;
}

Arrivals LeastArrivals(const Graph& graph, const Tensor& tensor, PartsByOp parts,
                       std::span<const int32_t> node_of_device, int devices) {
  const bool is_made = tensor.kind == TensorKind::kActivation;
  if (!is_made || graph.producers(tensor.id).empty()) return {};
  const Pieces pieces(graph, tensor, parts, node_of_device);
  const auto terms = pieces.TermsOfElements(tensor.type.shape);
  if (!terms.has_value()) return {};
  Arrivals arrivals{
      .at_device = std::vector<int64_t>(static_cast<size_t>(devices)),
      .at_node = std::vector<int64_t>(static_cast<size_t>(NodeCount(node_of_device)))};
  Reader reader(pieces, *terms, node_of_device, arrivals);
  for (OpId id : graph.consumers(tensor.id)) {
    const Operator& op = graph.op(id);
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      if (op.inputs[k] == tensor.id) reader.Read(parts[id.index()], k);
    }
  }
  return arrivals;
}

StepArrivals::StepArrivals(int devices, std::span<const int32_t> node_of_device)
    : node_of_device_(node_of_device),
      at_device_(static_cast<size_t>(devices), 0),
      at_node_(static_cast<size_t>(NodeCount(node_of_device)), 0) {}

void StepArrivals::Find(const ExchangeStep& step) {
  for (DeviceId device : devices_) at_device_[device.index()] = 0;
  for (int32_t node : nodes_) at_node_[static_cast<size_t>(node)] = 0;
  devices_ = step.group;
  nodes_.clear();
  for (DeviceId device : devices_) nodes_.push_back(NodeOf(device));
  std::sort(nodes_.begin(), nodes_.end());
  nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
  at_devices_ = at_nodes_ = 0;
  switch (step.kind) {
    case ExchangeStep::Kind::kLocal:
      return;
    case ExchangeStep::Kind::kTransfers:
    case ExchangeStep::Kind::kAllToAll:
      return AddTransfers(step);
    case ExchangeStep::Kind::kAllGather:
      return AddGather(step);
    case ExchangeStep::Kind::kAllReduce:
    case ExchangeStep::Kind::kReduceScatter:
      return AddReduction(step);
  }
}

// Exactly what crosses.
void StepArrivals::AddTransfers(const ExchangeStep& step) {
  for (const Flow& flow : step.flows) {
    const int64_t volume = VolumeOf(flow.boxes);
    for (const Share& share : flow.owners) {
      const int32_t from = NodeOf(share.device);
      for (DeviceId to : flow.destinations) {
        if (to == share.device) continue;
        at_device_[to.index()] += volume;
        at_devices_ += volume;
        const int32_t node = NodeOf(to);
        if (node == from) continue;
        at_node_[static_cast<size_t>(node)] += volume;
        at_nodes_ += volume;
      }
    }
  }
}

// Every rank gets the blocks of all others, whether it wants them or not.
void StepArrivals::AddGather(const ExchangeStep& step) {
  int64_t total = 0;
  for (const Flow& flow : step.flows) {
    const int64_t volume = VolumeOf(flow.boxes);
    const DeviceId owner = flow.owners[0].device;
    total += volume;
    at_device_[owner.index()] -= volume;
    at_node_[static_cast<size_t>(NodeOf(owner))] -= volume;
  }
  for (DeviceId device : devices_) at_devices_ += at_device_[device.index()] += total;
  for (int32_t node : nodes_) at_nodes_ += at_node_[static_cast<size_t>(node)] += total;
}

// To sum an element over n ranks takes n - 1 messages, and as many again for all to know the sum.
// Each rank gets what it wants of the sums at least once, since it lacks the others' terms.
void StepArrivals::AddReduction(const ExchangeStep& step) {
  const bool for_all = step.kind == ExchangeStep::Kind::kAllReduce;
  int64_t total = 0;
  for (const Flow& flow : step.flows) {
    const int64_t volume = VolumeOf(flow.boxes);
    total += volume;
    if (!for_all) at_device_[flow.destinations[0].index()] += volume;
  }
  const int64_t times = for_all ? 2 : 1;
  at_devices_ = times * static_cast<int64_t>(devices_.size() - 1) * total;
  at_nodes_ = times * static_cast<int64_t>(nodes_.size() - 1) * total;
  for (DeviceId device : devices_) {
    int64_t& own = at_device_[device.index()];
    if (for_all) own = total;
    if (nodes_.size() == 1) continue;
    int64_t& node = at_node_[static_cast<size_t>(NodeOf(device))];
    node = for_all ? total : node + own;
  }
}

}  // namespace partita

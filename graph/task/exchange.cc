// Exchange in four moves:
//   1. cells   - cut every dimension at the ends of all distinct boxes; a cell is a grid box that
//   some demand
//                wants. Cells covered by the same pieces and wanted by the same demands form a
//                *region*.
//   2. owners  - for each region choose which holder of each term serves which destination:
//   *flows*.
//   3. shape   - a flow's owners S and destinations D say what it is: local, all-reduce (S = D),
//   reduce
//                (one destination in S), broadcast (one owner); several reduces over one group are
//                a reduce-scatter, several broadcasts an all-gather.
//   4. steps   - flows of one shape and group travel together.
#include "graph/task/exchange.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "graph/support/check.h"

namespace partita {
namespace {

using Ids = absl::InlinedVector<int32_t, 6>;

// Equal boxes once, with what holds or wants each.
struct DistinctBoxes {
  std::vector<Box> boxes;
  std::vector<std::vector<int32_t>> members;  // piece or demand numbers
};

template <class Item>
DistinctBoxes Distinct(std::span<const Item> items) {
  DistinctBoxes distinct;
  absl::flat_hash_map<Box, int32_t> index;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].box.empty()) continue;
    const auto [it, added] =
        index.try_emplace(items[i].box, static_cast<int32_t>(distinct.boxes.size()));
    if (added) {
      distinct.boxes.push_back(items[i].box);
      distinct.members.emplace_back();
    }
    distinct.members[static_cast<size_t>(it->second)].push_back(static_cast<int32_t>(i));
  }
  return distinct;
}

// A set of grid cells with the same covering pieces and the same demands, as few boxes as merging
// finds.
struct Region {
  std::vector<Box> boxes;
  std::vector<int32_t> pieces;
  std::vector<int32_t> demands;
};

// The grid made by all ends of all boxes.
class Grid {
 public:
  Grid(const DistinctBoxes& a, const DistinctBoxes& b) {
    const int rank = b.boxes[0].rank();
    cuts_.resize(static_cast<size_t>(rank));
    for (const DistinctBoxes* side : {&a, &b}) {
      for (const Box& box : side->boxes) {
        for (int d = 0; d < rank; ++d) {
          cuts_[static_cast<size_t>(d)].push_back(box[d].lo);
          cuts_[static_cast<size_t>(d)].push_back(box[d].hi);
        }
      }
    }
    for (auto& cut : cuts_) {
      std::sort(cut.begin(), cut.end());
      cut.erase(std::unique(cut.begin(), cut.end()), cut.end());
    }
  }

  // Calls visit(cell number) for every cell of `box`; numbers are row-major.
  template <class Visit>
  void ForEachCell(const Box& box, Visit&& visit) const {
    Walk(box, 0, 0, visit);
  }

  Box CellBox(int64_t cell) const {
    Box box(static_cast<int>(cuts_.size()));
    for (size_t d = cuts_.size(); d-- > 0;) {
      const auto width = static_cast<int64_t>(cuts_[d].size()) - 1;
      const auto k = static_cast<size_t>(cell % width);
      box[static_cast<int>(d)] = {cuts_[d][k], cuts_[d][k + 1]};
      cell /= width;
    }
    return box;
  }

 private:
  template <class Visit>
  void Walk(const Box& box, size_t d, int64_t prefix, Visit& visit) const {
    if (d == cuts_.size()) {
      visit(prefix);
      return;
    }
    const auto& cut = cuts_[d];
    const Interval range = box[static_cast<int>(d)];
    auto k = static_cast<int64_t>(std::lower_bound(cut.begin(), cut.end(), range.lo) - cut.begin());
    const auto width = static_cast<int64_t>(cut.size()) - 1;
    for (; cut[static_cast<size_t>(k)] < range.hi; ++k) Walk(box, d + 1, prefix * width + k, visit);
  }

  std::vector<std::vector<int64_t>> cuts_;
};

// Joins boxes that touch along dimension d and agree in all others.
std::vector<Box> MergeAlong(std::vector<Box> boxes, int d) {
  std::sort(boxes.begin(), boxes.end(), [d](const Box& a, const Box& b) {
    for (int k = 0; k < a.rank(); ++k) {
      if (k != d && a[k] != b[k]) return a[k] < b[k];
    }
    return a[d].lo < b[d].lo;
  });
  std::vector<Box> merged;
  for (Box& box : boxes) {
    if (!merged.empty()) {
      Box& last = merged.back();
      bool joins = last[d].hi == box[d].lo;
      for (int k = 0; k < box.rank(); ++k) joins &= k == d || last[k] == box[k];
      if (joins) {
        last[d].hi = box[d].hi;
        continue;
      }
    }
    merged.push_back(std::move(box));
  }
  return merged;
}

std::vector<Box> Coalesce(std::vector<Box> boxes) {
  if (boxes.empty() || boxes[0].rank() == 0) return boxes;
  for (int d = boxes[0].rank(); d-- > 0;) boxes = MergeAlong(std::move(boxes), d);
  std::sort(boxes.begin(), boxes.end());
  return boxes;
}

std::vector<int32_t> Flatten(const Ids& ids, const DistinctBoxes& distinct) {
  std::vector<int32_t> members;
  for (int32_t id : ids) {
    const auto& list = distinct.members[static_cast<size_t>(id)];
    members.insert(members.end(), list.begin(), list.end());
  }
  std::sort(members.begin(), members.end());
  return members;
}

bool Overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.rank(); ++d) {
    if (a[d].lo >= b[d].hi || b[d].lo >= a[d].hi) return false;
  }
  return true;
}

bool CornerBefore(const Region& a, const Region& b) {
  const Box& x = a.boxes[0];
  const Box& y = b.boxes[0];
  for (int d = 0; d < x.rank(); ++d) {
    if (x[d].lo != y[d].lo) return x[d].lo < y[d].lo;
  }
  return false;
}

// Most exchanges: every wanted box is a source box and overlaps no other source box. Then these
// boxes are the regions, in the order in which the grid would find them.
std::optional<std::vector<Region>> AlignedRegions(const DistinctBoxes& sources,
                                                  const DistinctBoxes& wants) {
  std::vector<Region> regions;
  for (size_t w = 0; w < wants.boxes.size(); ++w) {
    const Box& box = wants.boxes[w];
    size_t equal = sources.boxes.size();
    for (size_t s = 0; s < sources.boxes.size(); ++s) {
      if (!Overlap(sources.boxes[s], box)) continue;
      if (equal != sources.boxes.size() || sources.boxes[s] != box) return std::nullopt;
      equal = s;
    }
    if (equal == sources.boxes.size()) return std::nullopt;
    regions.push_back({{box}, sources.members[equal], wants.members[w]});
  }
  std::sort(regions.begin(), regions.end(), CornerBefore);
  return regions;
}

std::vector<Region> FindRegions(const DistinctBoxes& sources, const DistinctBoxes& wants) {
  if (auto aligned = AlignedRegions(sources, wants)) return *std::move(aligned);
  const Grid grid(sources, wants);
  struct Cell {
    Ids sources, wants;
  };
  absl::flat_hash_map<int64_t, Cell> cells;
  for (size_t w = 0; w < wants.boxes.size(); ++w) {
    grid.ForEachCell(wants.boxes[w],
                     [&](int64_t cell) { cells[cell].wants.push_back(static_cast<int32_t>(w)); });
  }
  for (size_t s = 0; s < sources.boxes.size(); ++s) {
    grid.ForEachCell(sources.boxes[s], [&](int64_t cell) {
      const auto it = cells.find(cell);
      if (it != cells.end()) it->second.sources.push_back(static_cast<int32_t>(s));
    });
  }
  std::vector<int64_t> order;
  for (const auto& [number, cell] : cells) {
    if (!cell.sources.empty()) order.push_back(number);
  }
  std::sort(order.begin(), order.end());
  absl::flat_hash_map<std::pair<Ids, Ids>, size_t> index;
  std::vector<Region> regions;
  for (int64_t number : order) {
    const Cell& cell = cells[number];
    const auto [it, added] = index.try_emplace({cell.sources, cell.wants}, regions.size());
    if (added) {
      regions.push_back({{}, Flatten(cell.sources, sources), Flatten(cell.wants, wants)});
    }
    regions[it->second].boxes.push_back(grid.CellBox(number));
  }
  for (Region& region : regions) region.boxes = Coalesce(std::move(region.boxes));
  return regions;
}

std::vector<DeviceId> OwnersOf(const Flow& flow) {
  std::vector<DeviceId> owners;
  for (const Share& share : flow.owners) owners.push_back(share.device);
  return owners;
}

// Chooses owners for one region and splits its destinations among them.
class OwnerChoice {
 public:
  OwnerChoice(std::span<const Piece> pieces, std::span<const Demand> demands,
              const ExchangeOptions& options)
      : pieces_(pieces), demands_(demands), options_(options) {}

  std::vector<Flow> FlowsOf(const Region& region) const {
    // term -> device -> piece; ordered, so that equal arguments give equal flows.
    std::map<int64_t, std::map<DeviceId, int32_t>> holders;
    for (int32_t i : region.pieces) {
      const Piece& piece = pieces_[static_cast<size_t>(i)];
      holders[piece.term].try_emplace(piece.device, i);
    }
    std::vector<DeviceId> destinations;
    for (int32_t j : region.demands)
      destinations.push_back(demands_[static_cast<size_t>(j)].device);
    std::sort(destinations.begin(), destinations.end());
    destinations.erase(std::unique(destinations.begin(), destinations.end()), destinations.end());
    return holders.size() == 1 ? CopyFlows(region, holders.begin()->second, destinations)
                               : SumFlows(region, holders, destinations);
  }

 private:
  // One term: a destination that holds it keeps its copy; others take the nearest, in turn.
  std::vector<Flow> CopyFlows(const Region& region, const std::map<DeviceId, int32_t>& holders,
                              const std::vector<DeviceId>& destinations) const {
    std::map<DeviceId, std::vector<DeviceId>> served;
    size_t turn = 0;
    for (DeviceId to : destinations) {
      if (holders.contains(to)) {
        served[to].push_back(to);
        continue;
      }
      std::vector<DeviceId> near;
      for (const auto& [device, piece] : holders) {
        if (SameNode(device, to)) near.push_back(device);
      }
      if (near.empty()) {
        for (const auto& [device, piece] : holders) near.push_back(device);
      }
      served[near[turn++ % near.size()]].push_back(to);
    }
    std::vector<Flow> flows;
    for (auto& [owner, to] : served) {
      std::sort(to.begin(), to.end());
      flows.push_back(
          {region.boxes, {{owner, {holders.at(owner)}}}, std::move(to), region.demands, {}});
    }
    return flows;
  }

  using Holders = std::map<int64_t, std::map<DeviceId, int32_t>>;

  // One copy of every term, and whom its sum serves.
  struct Layer {
    std::map<DeviceId, Share> owners;
    std::vector<DeviceId> served;
  };

  // Several terms: layer k takes the k-th copy of every term; a destination joins a layer that it
  // is an owner of, else the layer with the fewest destinations. If the sums of the layers could
  // round differently, the first serves all.
  std::vector<Flow> SumFlows(const Region& region, const Holders& holders,
                             const std::vector<DeviceId>& destinations) const {
    std::vector<Layer> layers = LayersOf(holders);
    for (DeviceId to : destinations) ServingLayer(layers, to).served.push_back(to);
    std::erase_if(layers, [](const Layer& layer) { return layer.served.empty(); });
    if (layers.size() > 1 && !AddAlike(layers, holders.size())) {
      layers = LayersOf(holders);
      layers.resize(1);
      layers[0].served = destinations;
    }
    const bool in_term_order = layers.size() > 1 && NeedsOrder(layers[0], holders.size());
    std::vector<Flow> flows;
    for (Layer& layer : layers) {
      Flow flow{region.boxes, {}, std::move(layer.served), region.demands, {}};
      for (auto& [device, share] : layer.owners) flow.owners.push_back(std::move(share));
      if (in_term_order) SortByTerm(flow.owners);
      flows.push_back(std::move(flow));
    }
    if (in_term_order) NoteLayers(flows);
    return flows;
  }

  static std::vector<Layer> LayersOf(const Holders& holders) {
    size_t count = holders.begin()->second.size();
    for (const auto& [term, copies] : holders) count = std::min(count, copies.size());
    std::vector<Layer> layers(count);
    for (const auto& [term, copies] : holders) {
      auto copy = copies.begin();
      for (size_t k = 0; k < count; ++k, ++copy) {
        Share& share = layers[k].owners[copy->first];
        share.device = copy->first;
        share.pieces.push_back(copy->second);
      }
    }
    return layers;
  }

  static Layer& ServingLayer(std::vector<Layer>& layers, DeviceId to) {
    for (Layer& layer : layers) {
      if (layer.owners.contains(to)) return layer;
    }
    return *std::min_element(layers.begin(), layers.end(), [](const Layer& a, const Layer& b) {
      return a.served.size() < b.served.size();
    });
  }

  // Two terms commute, and so do two shares.
  static bool NeedsOrder(const Layer& layer, size_t terms) {
    return terms > 2 && layer.owners.size() > 2;
  }

  // Whether the layers add the terms in one order, or can be made to: shares of the same terms in
  // all of them, and if the shares need an order, collectives of one kind.
  bool AddAlike(const std::vector<Layer>& layers, size_t terms) const {
    if (terms == 2) return true;
    const std::vector<std::vector<int64_t>> shares = TermsByShare(layers[0]);
    const bool needs_order = NeedsOrder(layers[0], terms);
    return std::all_of(layers.begin(), layers.end(), [&](const Layer& layer) {
      return TermsByShare(layer) == shares && (!needs_order || IsAllReduce(layer));
    });
  }

  bool IsAllReduce(const Layer& layer) const {
    return options_.collectives &&
           std::equal(layer.owners.begin(), layer.owners.end(), layer.served.begin(),
                      layer.served.end(),
                      [](const auto& owner, DeviceId to) { return owner.first == to; });
  }

  // What each share of a layer sums; sorted.
  std::vector<std::vector<int64_t>> TermsByShare(const Layer& layer) const {
    std::vector<std::vector<int64_t>> shares;
    for (const auto& [device, share] : layer.owners) {
      shares.emplace_back();
      for (int32_t piece : share.pieces) shares.back().push_back(TermOf(piece));
    }
    std::sort(shares.begin(), shares.end());
    return shares;
  }

  void SortByTerm(std::vector<Share>& owners) const {
    std::sort(owners.begin(), owners.end(), [this](const Share& a, const Share& b) {
      return TermOf(a.pieces[0]) < TermOf(b.pieces[0]);
    });
  }

  static void NoteLayers(std::vector<Flow>& flows) {
    std::vector<std::vector<DeviceId>> layers;
    for (const Flow& flow : flows) layers.push_back(OwnersOf(flow));
    for (Flow& flow : flows) flow.layers = layers;
  }

  int64_t TermOf(int32_t piece) const { return pieces_[static_cast<size_t>(piece)].term; }

  bool SameNode(DeviceId a, DeviceId b) const {
    const auto& node = options_.node_of_device;
    return node.empty() || node[a.index()] == node[b.index()];
  }

  std::span<const Piece> pieces_;
  std::span<const Demand> demands_;
  const ExchangeOptions& options_;
};

// Collects flows by shape and group, and orders the steps.
class StepBuilder {
 public:
  StepBuilder(std::span<const Demand> demands, bool collectives)
      : demands_(demands), collectives_(collectives) {}

  void Add(Flow flow) {
    std::vector<DeviceId> owners = OwnersOf(flow);
    const auto& to = flow.destinations;
    if (!flow.layers.empty()) {
      all_reduces_[{std::move(owners), flow.layers}].push_back(std::move(flow));
    } else if (owners == to && to.size() == 1) {
      local_.push_back(std::move(flow));
    } else if (!collectives_ && (owners.size() <= 2 || to.size() == 1)) {
      transfers_.push_back(std::move(flow));
    } else if (!collectives_) {
      AddReduceAndBroadcast(std::move(flow), owners);
    } else if (owners.size() == 1) {
      std::vector<DeviceId> group = Union(owners, to);
      if (group.size() == 2) {
        transfers_.push_back(std::move(flow));
      } else {
        gathers_[std::move(group)].push_back(std::move(flow));
      }
    } else if (owners == to) {
      all_reduces_[{to, {}}].push_back(std::move(flow));
    } else if (to.size() == 1) {
      if (owners.size() >= 3 && std::binary_search(owners.begin(), owners.end(), to[0])) {
        reduces_[owners].push_back(std::move(flow));
      } else {
        transfers_.push_back(std::move(flow));
      }
    } else {
      AddReduceAndBroadcast(std::move(flow), owners);
    }
  }

  std::vector<ExchangeStep> Finish() && {
    std::vector<ExchangeStep> steps;
    if (!local_.empty()) steps.push_back({ExchangeStep::Kind::kLocal, {}, std::move(local_)});
    for (auto& [group, flows] : all_reduces_) {
      steps.push_back({ExchangeStep::Kind::kAllReduce, group.ranks, std::move(flows)});
    }
    for (auto& [group, flows] : reduces_) {
      steps.push_back({ExchangeStep::Kind::kReduceScatter, group, std::move(flows)});
    }
    AppendTransfers(std::move(transfers_), steps);
    for (auto& [group, flows] : gathers_) {
      steps.push_back({ExchangeStep::Kind::kAllGather, group, std::move(flows)});
    }
    AppendTransfers(std::move(late_transfers_), steps);
    for (auto& [group, flows] : late_gathers_) {
      steps.push_back({ExchangeStep::Kind::kAllGather, group, std::move(flows)});
    }
    return steps;
  }

 private:
  static std::vector<DeviceId> Union(const std::vector<DeviceId>& a,
                                     const std::vector<DeviceId>& b) {
    std::vector<DeviceId> all;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
    return all;
  }

  // S and D differ and both are several: reduce to one destination, broadcast from it.
  void AddReduceAndBroadcast(Flow flow, const std::vector<DeviceId>& owners) {
    std::vector<DeviceId> rest = flow.destinations;
    DeviceId root = rest[0];
    for (DeviceId to : rest) {
      if (std::binary_search(owners.begin(), owners.end(), to)) {
        root = to;
        break;
      }
    }
    rest.erase(std::find(rest.begin(), rest.end(), root));
    Flow second{flow.boxes, {{root, {}, DemandOf(flow, root)}}, rest, flow.demands, {}};
    if (rest.size() == 1 || !collectives_) {
      late_transfers_.push_back(std::move(second));
    } else {
      late_gathers_[Union({root}, rest)].push_back(std::move(second));
    }
    flow.destinations = {root};
    Add(std::move(flow));
  }

  int32_t DemandOf(const Flow& flow, DeviceId device) const {
    for (int32_t j : flow.demands) {
      if (demands_[static_cast<size_t>(j)].device == device) return j;
    }
    CHECK(false) << "device " << device.value() << " does not want the region";
    return -1;
  }

  // One owner, one destination, for all ordered pairs of at least three devices: an all-to-all.
  // Otherwise transfers, one group for each set of connected devices.
  void AppendTransfers(std::vector<Flow> flows, std::vector<ExchangeStep>& steps) const {
    std::map<DeviceId, DeviceId> parent;
    auto find = [&parent](DeviceId d) {
      parent.try_emplace(d, d);
      while (parent[d] != d) d = parent[d];
      return d;
    };
    for (const Flow& flow : flows) {
      const DeviceId first = find(flow.owners[0].device);
      for (const Share& share : flow.owners) parent[find(share.device)] = find(first);
      for (DeviceId to : flow.destinations) parent[find(to)] = find(first);
    }
    std::map<DeviceId, ExchangeStep> groups;
    for (Flow& flow : flows) {
      ExchangeStep& step = groups[find(flow.owners[0].device)];
      step.kind = ExchangeStep::Kind::kTransfers;
      step.flows.push_back(std::move(flow));
    }
    for (auto& [device, root] : parent) {
      const auto it = groups.find(find(device));
      if (it != groups.end()) it->second.group.push_back(device);
    }
    for (auto& [root, step] : groups) {
      if (collectives_ && IsAllToAll(step)) step.kind = ExchangeStep::Kind::kAllToAll;
      steps.push_back(std::move(step));
    }
  }

  static bool IsAllToAll(const ExchangeStep& step) {
    if (step.group.size() < 3) return false;
    std::map<std::pair<DeviceId, DeviceId>, int> pairs;
    for (const Flow& flow : step.flows) {
      if (flow.owners.size() != 1) return false;
      for (DeviceId to : flow.destinations) {
        if (to != flow.owners[0].device) ++pairs[{flow.owners[0].device, to}];
      }
    }
    return pairs.size() == step.group.size() * (step.group.size() - 1);
  }

  std::span<const Demand> demands_;
  bool collectives_;
  std::vector<Flow> local_, transfers_, late_transfers_;
  // Layers of one region, and of all regions that have the same layers, must have equal elements at
  // equal places: an algorithm's order of ranks depends on the place.
  struct AllReduceGroup {
    std::vector<DeviceId> ranks;
    std::vector<std::vector<DeviceId>> layers;
    auto operator<=>(const AllReduceGroup&) const = default;
  };
  std::map<AllReduceGroup, std::vector<Flow>> all_reduces_;
  std::map<std::vector<DeviceId>, std::vector<Flow>> reduces_, gathers_, late_gathers_;
};

}  // namespace

std::vector<ExchangeStep> Exchange(std::span<const Piece> pieces, std::span<const Demand> demands,
                                   const ExchangeOptions& options) {
  const DistinctBoxes sources = Distinct(pieces);
  const DistinctBoxes wants = Distinct(demands);
  if (sources.boxes.empty() || wants.boxes.empty()) return {};
  const OwnerChoice choice(pieces, demands, options);
  StepBuilder steps(demands, options.collectives);
  for (const Region& region : FindRegions(sources, wants)) {
    for (Flow& flow : choice.FlowsOf(region)) steps.Add(std::move(flow));
  }
  return std::move(steps).Finish();
}

int64_t ElementsSent(const ExchangeStep& step) {
  int64_t elements = 0;
  for (const Flow& flow : step.flows) {
    int64_t volume = 0;
    for (const Box& box : flow.boxes) volume += box.volume();
    for (const Share& share : flow.owners) {
      for (DeviceId to : flow.destinations) elements += to == share.device ? 0 : volume;
    }
  }
  return elements;
}

}  // namespace partita

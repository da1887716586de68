// Exchange in four moves:
//   1. cells   - cut every dimension at the ends of all distinct boxes; a cell is a grid box that
//                some demand wants. Cells covered by the same pieces and wanted by the same demands
//                form a *region*.
//   2. owners  - for each region choose which holder of each term serves which destination:
//                *flows*.
//   3. shape   - a flow's owners S and destinations D give its kind: local, all-reduce (S = D),
//                reduce (one destination in S), broadcast (one owner); several reduces over one
//                group are a reduce-scatter, several broadcasts an all-gather.
//   4. steps   - flows of one shape and group travel together.
#include "graph/partition/exchange.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "graph/partition/exchange_regions.h"
#include "graph/support/check.h"

namespace partita {
namespace {

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
    if (region.pieces.size() == 1 && region.demands.size() == 1) return {LoneFlow(region)};
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
  using DemandsByDevice = absl::flat_hash_map<DeviceId, std::vector<int32_t>>;
  DemandsByDevice ByDevice(std::span<const int32_t> demands) const {
    DemandsByDevice by_device;
    for (int32_t j : demands) by_device[demands_[static_cast<size_t>(j)].device].push_back(j);
    return by_device;
  }
  using Demands = absl::InlinedVector<int32_t, 2>;
  static Demands DemandsAt(std::span<const DeviceId> devices, const DemandsByDevice& wanted) {
    Demands demands;
    for (DeviceId device : devices) {
      const std::vector<int32_t>& own = wanted.at(device);
      demands.insert(demands.end(), own.begin(), own.end());
    }
    std::sort(demands.begin(), demands.end());
    return demands;
  }

  Flow LoneFlow(const Region& region) const {
    const int32_t piece = region.pieces[0], demand = region.demands[0];
    return {region.boxes,
            {{pieces_[static_cast<size_t>(piece)].device, {piece}}},
            {demands_[static_cast<size_t>(demand)].device},
            {demand},
            {}};
  }

  // One term: a destination that holds it keeps its copy; others take the nearest, in turn.
  std::vector<Flow> CopyFlows(const Region& region, const std::map<DeviceId, int32_t>& holders,
                              const std::vector<DeviceId>& destinations) const {
    absl::flat_hash_map<int32_t, std::vector<DeviceId>> on_node;
    std::vector<DeviceId> all;
    for (const auto& [device, piece] : holders) {
      on_node[NodeOf(device)].push_back(device);
      all.push_back(device);
    }
    std::map<DeviceId, std::vector<DeviceId>> served;
    size_t turn = 0;
    for (DeviceId to : destinations) {
      if (holders.contains(to)) {
        served[to].push_back(to);
        continue;
      }
      const auto same_node = on_node.find(NodeOf(to));
      const std::vector<DeviceId>& near = same_node == on_node.end() ? all : same_node->second;
      served[near[turn++ % near.size()]].push_back(to);
    }
    std::vector<Flow> flows;
    const DemandsByDevice wanted = ByDevice(region.demands);
    for (auto& [owner, to] : served) {
      std::sort(to.begin(), to.end());
      flows.push_back({region.boxes,
                       {{owner, {holders.at(owner)}}},
                       {to.begin(), to.end()},
                       DemandsAt(to, wanted),
                       {}});
    }
    return flows;
  }

  using Holders = std::map<int64_t, std::map<DeviceId, int32_t>>;

  // One copy of every term, and the destinations that its sum serves.
  struct Layer {
    std::map<DeviceId, Share> owners;
    std::vector<DeviceId> served;
  };

  // Several terms: layer k takes the k-th copy of every term; a destination joins a layer that it
  // is an owner of, else the layer with the fewest destinations. If the sums of the replica_groups
  // could round differently, the first serves all.
  std::vector<Flow> SumFlows(const Region& region, const Holders& holders,
                             const std::vector<DeviceId>& destinations) const {
    std::vector<Layer> replica_groups = LayersOf(holders);
    for (DeviceId to : destinations) ServingLayer(replica_groups, to).served.push_back(to);
    std::erase_if(replica_groups, [](const Layer& layer) { return layer.served.empty(); });
    if (replica_groups.size() > 1 && !AddAlike(replica_groups, holders.size())) {
      replica_groups = LayersOf(holders);
      replica_groups.resize(1);
      replica_groups[0].served = destinations;
    }
    const bool in_term_order =
        replica_groups.size() > 1 && NeedsOrder(replica_groups[0], holders.size());
    const DemandsByDevice wanted = ByDevice(region.demands);
    std::vector<Flow> flows;
    for (Layer& layer : replica_groups) {
      Flow flow{region.boxes, {}, {layer.served.begin(), layer.served.end()}, {}, {}};
      flow.demands = DemandsAt(flow.destinations, wanted);
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
    std::vector<Layer> replica_groups(count);
    for (const auto& [term, copies] : holders) {
      auto copy = copies.begin();
      for (size_t k = 0; k < count; ++k, ++copy) {
        Share& share = replica_groups[k].owners[copy->first];
        share.device = copy->first;
        share.pieces.push_back(copy->second);
      }
    }
    return replica_groups;
  }

  static Layer& ServingLayer(std::vector<Layer>& replica_groups, DeviceId to) {
    for (Layer& layer : replica_groups) {
      if (layer.owners.contains(to)) return layer;
    }
    return *std::min_element(
        replica_groups.begin(), replica_groups.end(),
        [](const Layer& a, const Layer& b) { return a.served.size() < b.served.size(); });
  }

  // Two terms commute, and so do two shares.
  static bool NeedsOrder(const Layer& layer, size_t terms) {
    return terms > 2 && layer.owners.size() > 2;
  }

  // Whether the replica_groups add the terms in one order, or can be made to: shares of the same
  // terms in all of them, and if the shares need an order, collectives of one kind.
  bool AddAlike(const std::vector<Layer>& replica_groups, size_t terms) const {
    if (terms == 2) return true;
    const std::vector<std::vector<int64_t>> shares = TermsByShare(replica_groups[0]);
    const bool needs_order = NeedsOrder(replica_groups[0], terms);
    return std::all_of(replica_groups.begin(), replica_groups.end(), [&](const Layer& layer) {
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

  void SortByTerm(absl::InlinedVector<Share, 1>& owners) const {
    std::sort(owners.begin(), owners.end(), [this](const Share& a, const Share& b) {
      return TermOf(a.pieces[0]) < TermOf(b.pieces[0]);
    });
  }

  static void NoteLayers(std::vector<Flow>& flows) {
    std::vector<std::vector<DeviceId>> replica_groups;
    for (const Flow& flow : flows) replica_groups.push_back(OwnersOf(flow));
    for (Flow& flow : flows) flow.replica_groups = replica_groups;
  }

  int64_t TermOf(int32_t piece) const { return pieces_[static_cast<size_t>(piece)].term; }

  int32_t NodeOf(DeviceId device) const {
    const auto& node = options_.node_of_device;
    return node.empty() ? 0 : node[device.index()];
  }

  std::span<const Piece> pieces_;
  std::span<const Demand> demands_;
  const ExchangeOptions& options_;
};

// Sets of devices that join, each with one of them as its root.
class DeviceSets {
 public:
  void Join(DeviceId a, DeviceId b) {
    const auto from = static_cast<size_t>(RootOf(b).value());
    parent_[from] = RootOf(a).value();
  }
  DeviceId RootOf(DeviceId device) {
    if (parent_.size() <= device.index()) parent_.resize(device.index() + 1, -1);
    int32_t d = device.value();
    if (At(d) < 0) At(d) = d;
    while (At(d) != d) d = At(d) = At(At(d));
    return DeviceId(d);
  }
  // All devices that were asked for, ascending.
  std::vector<DeviceId> members() const {
    std::vector<DeviceId> members;
    for (size_t d = 0; d < parent_.size(); ++d) {
      if (parent_[d] >= 0) members.push_back(DeviceId(static_cast<int32_t>(d)));
    }
    return members;
  }

 private:
  int32_t& At(int32_t device) { return parent_[static_cast<size_t>(device)]; }

  std::vector<int32_t> parent_;  // indexed by DeviceId; -1: not met
};

// Collects flows by shape and group, and orders the steps.
class StepBuilder {
 public:
  StepBuilder(std::span<const Demand> demands, bool collectives)
      : demands_(demands), collectives_(collectives) {}

  void Add(Flow flow) {
    if (flow.owners.size() == 1 && flow.destinations.size() == 1) {
      const bool is_local = flow.owners[0].device == flow.destinations[0];
      return (is_local ? local_ : transfers_).push_back(std::move(flow));
    }
    std::vector<DeviceId> owners = OwnersOf(flow);
    const std::vector<DeviceId> to(flow.destinations.begin(), flow.destinations.end());
    if (!flow.replica_groups.empty()) {
      all_reduces_[{std::move(owners), flow.replica_groups}].push_back(std::move(flow));
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
    std::vector<DeviceId> rest(flow.destinations.begin(), flow.destinations.end());
    DeviceId root = rest[0];
    for (DeviceId to : rest) {
      if (std::binary_search(owners.begin(), owners.end(), to)) {
        root = to;
        break;
      }
    }
    rest.erase(std::find(rest.begin(), rest.end(), root));
    Flow second{flow.boxes,
                {{root, {}, DemandOf(flow, root)}},
                {rest.begin(), rest.end()},
                flow.demands,
                {}};
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
    DeviceSets sets;
    for (const Flow& flow : flows) {
      const DeviceId first = flow.owners[0].device;
      for (const Share& share : flow.owners) sets.Join(first, share.device);
      for (DeviceId to : flow.destinations) sets.Join(first, to);
    }
    std::map<DeviceId, ExchangeStep> groups;
    for (DeviceId device : sets.members()) groups[sets.RootOf(device)].group.push_back(device);
    for (Flow& flow : flows) {
      ExchangeStep& step = groups[sets.RootOf(flow.owners[0].device)];
      step.kind = ExchangeStep::Kind::kTransfers;
      step.flows.push_back(std::move(flow));
    }
    for (auto& [root, step] : groups) {
      if (collectives_ && IsAllToAll(step)) step.kind = ExchangeStep::Kind::kAllToAll;
      steps.push_back(std::move(step));
    }
  }

  // A flow of transfers has one destination besides its owner.
  static bool IsAllToAll(const ExchangeStep& step) {
    const size_t wanted = step.group.size() * (step.group.size() - 1);
    if (step.group.size() < 3 || step.flows.size() < wanted) return false;
    std::vector<std::pair<DeviceId, DeviceId>> pairs;
    for (const Flow& flow : step.flows) {
      if (flow.owners.size() != 1) return false;
      for (DeviceId to : flow.destinations) {
        if (to != flow.owners[0].device) pairs.emplace_back(flow.owners[0].device, to);
      }
    }
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    return pairs.size() == wanted;
  }

  std::span<const Demand> demands_;
  bool collectives_;
  std::vector<Flow> local_, transfers_, late_transfers_;
  // Layers of one region, and of all regions that have the same replica_groups, must have equal
  // elements at equal places: an algorithm's order of ranks depends on the place.
  struct AllReduceGroup {
    std::vector<DeviceId> ranks;
    std::vector<std::vector<DeviceId>> replica_groups;
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

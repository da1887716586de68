// Exchange in five moves:
//   1. near    - demands that lie in a piece of their device, or in another demand of it, take it
//                from there.
//   2. cells   - cut every dimension at the ends of all distinct boxes; a cell is a grid box that
//                some demand wants. Cells covered by the same pieces and wanted by the same demands
//                form a *region*. Where nothing is summed, what a source has of a wanted box is one,
//                whatever else wants some of it; and mostly where sums are of boxes that differ
//                (overlap_sums.h).
//   3. owners  - for each region choose which holder of each term serves which destination:
//                *flows*.
//   4. shape   - a flow's owners S and destinations D give its kind: local, all-reduce (S = D),
//                reduce (one destination in S), broadcast (one owner); several reduces over one
//                group are a reduce-scatter, several broadcasts an all-gather.
//   5. steps   - flows of one shape and group travel together; where that would be in more groups than
//                there are devices, broadcasts by their destinations, and small sums all at once.
#include "graph/partition/exchange.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "graph/partition/box_product.h"
#include "graph/partition/exchange_steps.h"
#include "graph/partition/items_by_device.h"
#include "graph/partition/near_demands.h"
#include "graph/partition/overlap_regions.h"
#include "graph/partition/overlap_sums.h"
#include "graph/partition/windows.h"

namespace partita {
namespace {

// Chooses owners for one region after another and splits its destinations among them.
class OwnerChoice {
 public:
  OwnerChoice(std::span<const Piece> pieces, std::span<const Demand> demands,
              const ExchangeOptions& options, SpanArena& lists)
      : pieces_(pieces), demands_(demands), options_(options), lists_(lists) {
    std::vector<int32_t> numbers(pieces.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    const std::span<const int32_t> kept = lists_.Copy<int32_t>(numbers);
    std::vector<Share> shares;
    for (size_t i = 0; i < pieces.size(); ++i) {
      shares.push_back({pieces[i].device, -1, kept.subspan(i, 1)});
    }
    shares_ = lists_.Copy<Share>(shares);
    for (const Demand& demand : demands) to_.push_back(demand.device);
    devices_ = lists_.Copy<DeviceId>(to_);
  }

  // Adds the flows of near demands, each of one of these boxes: those of pieces, and of other demands,
  // which have to be finished.
  void AddNear(const NearDemands& near, std::span<const Box> boxes, StepBuilder& steps) const {
    for (size_t k = 0; k < near.of_pieces.size(); ++k) {
      const auto& [demand, piece] = near.of_pieces[k];
      steps.Add(NearFlow(demand, boxes.subspan(k, 1), OwnerOf(piece)));
    }
  }
  void AddCopies(const NearDemands& near, std::span<const Box> boxes, StepBuilder& steps) const {
    for (size_t k = 0; k < near.of_demands.size(); ++k) {
      const auto& [demand, source] = near.of_demands[k];
      const Share finished{DemandAt(demand).device, source, {}};
      const auto box = boxes.subspan(near.of_pieces.size() + k, 1);
      steps.AddLast(NearFlow(demand, box, lists_.CopyOne(finished)));
    }
  }

  // Adds the flows of what pieces have of demands; `after_sums`: what they are added to may be the sum of
  // other pieces.
  void AddParts(std::span<const OverlapSums::Part> parts, bool after_sums,
                StepBuilder& steps) const {
    for (const OverlapSums::Part& part : parts) {
      const auto to = devices_.subspan(static_cast<size_t>(part.demand[0]), 1);
      const Flow flow{part.box, OwnerOf(part.piece), to, part.demand, part.adds};
      if (after_sums && part.adds && flow.owners[0].device == to[0]) {
        steps.AddLast(flow);
      } else {
        steps.Add(flow);
      }
    }
  }

  void AddFlows(const Region& region, StepBuilder& steps) {
    FindDestinations(region);
    if (region.pieces.size() == 1) return AddFlow(region, OwnerOf(region.pieces[0]), steps);
    const int64_t term = TermOf(region.pieces[0]);
    if (std::all_of(region.pieces.begin(), region.pieces.end(),
                    [&](int32_t piece) { return TermOf(piece) == term; })) {
      AddCopyFlows(region, steps);
    } else {
      AddSumFlows(region, steps);
    }
  }

 private:
  // A device's copy of a term: the first of its pieces.
  struct Holder {
    int64_t term;
    DeviceId device;
    int32_t piece;
  };
  // Number of a holder among those of its term.
  struct Copy {
    size_t number, holder;
  };
  // A destination, or a demand, and the holder or replica group that serves it.
  struct Served {
    size_t by;
    int32_t what;
  };

  // Finds destinations_. Mostly a region and the one before it are wanted by the same demands.
  void FindDestinations(const Region& region) {
    if (!destinations_.empty() && region.demands.data() == demands_at_hand_.data() &&
        region.demands.size() == demands_at_hand_.size()) {
      return;
    }
    demands_at_hand_ = region.demands;
    if (region.demands.size() == 1) {
      destinations_ = devices_.subspan(static_cast<size_t>(region.demands[0]), 1);
      return;
    }
    to_.clear();
    for (int32_t j : region.demands) to_.push_back(DemandAt(j).device);
    std::sort(to_.begin(), to_.end());
    to_.erase(std::unique(to_.begin(), to_.end()), to_.end());
    destinations_ = lists_.Copy<DeviceId>(to_);
  }

  Flow NearFlow(int32_t demand, std::span<const Box> box, std::span<const Share> owner) const {
    return {box, owner, devices_.subspan(static_cast<size_t>(demand), 1), lists_.CopyOne(demand)};
  }

  // The piece's own share, as a list.
  std::span<const Share> OwnerOf(int32_t piece) const {
    return shares_.subspan(static_cast<size_t>(piece), 1);
  }

  // Adds the flow of a region to all that want it.
  void AddFlow(const Region& region, std::span<const Share> owners, StepBuilder& steps) {
    steps.Add({region.boxes, owners, destinations_, region.demands});
  }

  // Holders by term and device, each once.
  void FindHolders(const Region& region) {
    holders_.clear();
    for (int32_t i : region.pieces) holders_.push_back({TermOf(i), PieceAt(i).device, i});
    std::sort(holders_.begin(), holders_.end(), [](const Holder& a, const Holder& b) {
      return std::tie(a.term, a.device, a.piece) < std::tie(b.term, b.device, b.piece);
    });
    const auto same = [](const Holder& a, const Holder& b) {
      return a.term == b.term && a.device == b.device;
    };
    holders_.erase(std::unique(holders_.begin(), holders_.end(), same), holders_.end());
  }

  // One term: a destination that holds it keeps its copy; others take the nearest, in turn.
  void AddCopyFlows(const Region& region, StepBuilder& steps) {
    FindHolders(region);
    if (holders_.size() == 1) return AddFlow(region, OwnerOf(holders_[0].piece), steps);
    FindNodes();
    served_.clear();
    size_t turn = 0;
    for (DeviceId to : destinations_) served_.push_back({HolderFor(to, turn), to.value()});
    AddServed(region, [&](size_t holder, std::span<const DeviceId> to, auto demands) {
      steps.Add(
          {region.boxes, OwnerOf(holders_[holder].piece), lists_.Copy<DeviceId>(to), demands});
    });
  }

  // Numbers of holders by node, on each by device.
  void FindNodes() {
    by_node_.clear();
    for (size_t h = 0; h < holders_.size(); ++h)
      by_node_.emplace_back(NodeOf(holders_[h].device), h);
    std::sort(by_node_.begin(), by_node_.end());
  }

  // Precondition: FindNodes. `turn` counts the destinations that hold no copy.
  size_t HolderFor(DeviceId to, size_t& turn) const {
    const auto own = std::lower_bound(
        holders_.begin(), holders_.end(), to,
        [](const Holder& holder, DeviceId device) { return holder.device < device; });
    if (own != holders_.end() && own->device == to) {
      return static_cast<size_t>(own - holders_.begin());
    }
    const int32_t node = NodeOf(to);
    const auto first =
        std::lower_bound(by_node_.begin(), by_node_.end(), std::pair(node, size_t{0}));
    const auto last =
        std::lower_bound(by_node_.begin(), by_node_.end(), std::pair(node + 1, size_t{0}));
    if (first == last) return turn++ % holders_.size();
    const auto near = static_cast<size_t>(last - first);
    return (first + static_cast<std::ptrdiff_t>(turn++ % near))->second;
  }

  // Calls add(who, destinations, demands) for each that serves someone, in order. Precondition:
  // served_ has every destination, in order.
  template <class Add>
  void AddServed(const Region& region, Add&& add) {
    wants_.clear();
    for (int32_t j : region.demands) {
      const auto to =
          std::lower_bound(destinations_.begin(), destinations_.end(), DemandAt(j).device);
      wants_.push_back({served_[static_cast<size_t>(to - destinations_.begin())].by, j});
    }
    const auto by = [](const Served& a, const Served& b) { return a.by < b.by; };
    std::stable_sort(served_.begin(), served_.end(), by);
    std::stable_sort(wants_.begin(), wants_.end(), by);
    auto want = wants_.begin();
    for (auto it = served_.begin(); it != served_.end();) {
      const size_t who = it->by;
      to_.clear();
      wanted_.clear();
      for (; it != served_.end() && it->by == who; ++it) to_.push_back(DeviceId(it->what));
      for (; want != wants_.end() && want->by == who; ++want) wanted_.push_back(want->what);
      add(who, std::span<const DeviceId>(to_), lists_.Copy<int32_t>(wanted_));
    }
  }

  // One copy of every term.
  struct ReplicaGroup {
    std::vector<Share> owners;  // by device
    bool is_owner(DeviceId device) const {
      const auto at = std::lower_bound(owners.begin(), owners.end(), device,
                                       [](const Share& s, DeviceId d) { return s.device < d; });
      return at != owners.end() && at->device == device;
    }
  };

  // Several terms: group k takes the k-th copy of every term; a destination joins a group that it
  // is an owner of, else the one with the fewest destinations. If the sums of the groups could round
  // differently, the first serves all.
  void AddSumFlows(const Region& region, StepBuilder& steps) {
    FindHolders(region);
    if (Terms() == holders_.size()) return AddFlow(region, OnlyOwners(), steps);
    std::vector<ReplicaGroup> groups = GroupsOf();
    std::vector<std::vector<DeviceId>> to(groups.size());
    for (DeviceId device : destinations_) to[GroupFor(groups, to, device)].push_back(device);
    for (size_t g = groups.size(); g-- > 0;) {
      if (!to[g].empty()) continue;
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
      to.erase(to.begin() + static_cast<std::ptrdiff_t>(g));
    }
    const size_t terms = Terms();
    if (groups.size() > 1 && !AddAlike(groups, to, terms)) {
      groups = GroupsOf();
      groups.resize(1);
      to = {{destinations_.begin(), destinations_.end()}};
    }
    const bool in_term_order = groups.size() > 1 && NeedsOrder(groups[0], terms);
    served_.clear();
    for (DeviceId device : destinations_) served_.push_back({0, device.value()});
    for (size_t g = 1; g < to.size(); ++g) {
      for (DeviceId device : to[g]) {
        const auto at = std::lower_bound(destinations_.begin(), destinations_.end(), device);
        served_[static_cast<size_t>(at - destinations_.begin())].by = g;
      }
    }
    std::vector<Flow> flows;
    AddServed(region, [&](size_t g, std::span<const DeviceId> devices, auto demands) {
      if (in_term_order) SortByTerm(groups[g].owners);
      flows.push_back({region.boxes, lists_.Copy<Share>(groups[g].owners),
                       lists_.Copy<DeviceId>(devices), demands});
    });
    if (in_term_order) return steps.AddReplicas(flows);
    for (const Flow& flow : flows) steps.Add(flow);
  }

  size_t Terms() const {
    size_t terms = 0;
    for (size_t h = 0; h < holders_.size(); ++h) {
      terms += h == 0 || holders_[h].term != holders_[h - 1].term;
    }
    return terms;
  }

  // The owners of terms that have one holder each: devices with all that they hold.
  std::span<const Share> OnlyOwners() {
    std::stable_sort(holders_.begin(), holders_.end(),
                     [](const Holder& a, const Holder& b) { return a.device < b.device; });
    wanted_.clear();
    for (const Holder& holder : holders_) wanted_.push_back(holder.piece);
    const std::span<const int32_t> pieces = lists_.Copy<int32_t>(wanted_);
    owners_.clear();
    for (size_t h = 0; h < holders_.size(); ++h) {
      if (h > 0 && holders_[h].device == holders_[h - 1].device) {
        owners_.back().pieces = {owners_.back().pieces.data(), owners_.back().pieces.size() + 1};
      } else {
        owners_.push_back({holders_[h].device, -1, pieces.subspan(h, 1)});
      }
    }
    return lists_.Copy<Share>(owners_);
  }

  std::vector<ReplicaGroup> GroupsOf() {
    size_t count = holders_.size();
    copies_.clear();
    for (size_t h = 0; h < holders_.size(); ++h) {
      const bool follows = h > 0 && holders_[h].term == holders_[h - 1].term;
      copies_.push_back({follows ? copies_.back().number + 1 : 0, h});
      const bool is_last = h + 1 == holders_.size() || holders_[h + 1].term != holders_[h].term;
      if (is_last) count = std::min(count, copies_.back().number + 1);
    }
    std::erase_if(copies_, [count](const Copy& copy) { return copy.number >= count; });
    std::stable_sort(copies_.begin(), copies_.end(), [this](const Copy& a, const Copy& b) {
      return std::pair(a.number, holders_[a.holder].device) <
             std::pair(b.number, holders_[b.holder].device);
    });
    std::vector<ReplicaGroup> groups(count);
    for (auto it = copies_.begin(); it != copies_.end();) {
      const Copy first = *it;
      const DeviceId device = holders_[first.holder].device;
      wanted_.clear();
      for (; it != copies_.end() && it->number == first.number &&
             holders_[it->holder].device == device;
           ++it) {
        wanted_.push_back(holders_[it->holder].piece);
      }
      groups[first.number].owners.push_back({device, -1, lists_.Copy<int32_t>(wanted_)});
    }
    return groups;
  }

  static size_t GroupFor(const std::vector<ReplicaGroup>& groups,
                         const std::vector<std::vector<DeviceId>>& to, DeviceId device) {
    size_t fewest = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].is_owner(device)) return g;
      if (to[g].size() < to[fewest].size()) fewest = g;
    }
    return fewest;
  }

  // Two terms commute, and so do two shares.
  static bool NeedsOrder(const ReplicaGroup& group, size_t terms) {
    return terms > 2 && group.owners.size() > 2;
  }

  // Whether the groups add the terms in one order, or can be made to: shares of the same terms in
  // all of them, and if the shares need an order, collectives of one kind.
  bool AddAlike(const std::vector<ReplicaGroup>& groups,
                const std::vector<std::vector<DeviceId>>& to, size_t terms) const {
    if (terms == 2) return true;
    const std::vector<std::vector<int64_t>> shares = TermsByShare(groups[0]);
    const bool needs_order = NeedsOrder(groups[0], terms);
    for (size_t g = 0; g < groups.size(); ++g) {
      if (TermsByShare(groups[g]) != shares) return false;
      if (needs_order && !IsAllReduce(groups[g], to[g])) return false;
    }
    return true;
  }

  bool IsAllReduce(const ReplicaGroup& group, const std::vector<DeviceId>& to) const {
    return options_.collectives &&
           std::equal(group.owners.begin(), group.owners.end(), to.begin(), to.end(),
                      [](const Share& owner, DeviceId device) { return owner.device == device; });
  }

  // What each share of a group sums; sorted.
  std::vector<std::vector<int64_t>> TermsByShare(const ReplicaGroup& group) const {
    std::vector<std::vector<int64_t>> shares;
    for (const Share& share : group.owners) {
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

  const Piece& PieceAt(int32_t piece) const { return pieces_[static_cast<size_t>(piece)]; }
  const Demand& DemandAt(int32_t demand) const { return demands_[static_cast<size_t>(demand)]; }
  int64_t TermOf(int32_t piece) const { return PieceAt(piece).term; }
  int32_t NodeOf(DeviceId device) const {
    const auto& node = options_.node_of_device;
    return node.empty() ? 0 : node[device.index()];
  }

  std::span<const Piece> pieces_;
  std::span<const Demand> demands_;
  const ExchangeOptions& options_;
  SpanArena& lists_;
  std::span<const Share> shares_;      // indexed by piece: what its device has of it alone
  std::span<const DeviceId> devices_;  // indexed by demand
  // Of the region at hand.
  std::span<const int32_t> demands_at_hand_;
  std::span<const DeviceId> destinations_;  // sorted, each once
  std::vector<Holder> holders_;
  std::vector<Copy> copies_;
  std::vector<std::pair<int32_t, size_t>> by_node_;
  std::vector<Served> served_, wants_;
  // Lists about to be copied.
  std::vector<DeviceId> to_;
  std::vector<int32_t> wanted_;
  std::vector<Share> owners_;
};

std::vector<Box> BoxesOf(const NearDemands& near, std::span<const Demand> demands) {
  std::vector<Box> boxes;
  boxes.reserve(near.of_pieces.size() + near.of_demands.size());
  for (const auto* list : {&near.of_pieces, &near.of_demands}) {
    for (const NearDemands::Near& one : *list) {
      boxes.push_back(demands[static_cast<size_t>(one.demand)].box);
    }
  }
  return boxes;
}

// Sorts regions by the device of their first piece, so that what a device sends comes in one go.
void SortByHolder(std::span<const Piece> pieces, std::vector<Region>& regions) {
  struct Held {
    DeviceId device;
  };
  std::vector<Held> holders;
  holders.reserve(regions.size());
  for (const Region& region : regions) {
    holders.push_back({pieces[static_cast<size_t>(region.pieces[0])].device});
  }
  std::vector<Region> sorted;
  sorted.reserve(regions.size());
  ItemsByDevice(std::span<const Held>(holders))
      .ForEach([&](DeviceId, std::span<const int32_t> numbers) {
        for (int32_t r : numbers) sorted.push_back(regions[static_cast<size_t>(r)]);
      });
  regions = std::move(sorted);
}

}  // namespace

SolvedExchange Exchange(std::span<const Piece> pieces, std::span<const Demand> demands,
                        const ExchangeOptions& options) {
  SolvedExchange solved;
  solved.sources_ = Distinct(pieces);
  if (solved.sources_.boxes.empty()) return solved;
  const auto grid = BoxProduct::OfDisjoint(solved.sources_.boxes);
  const CompletePieces complete = FindCompletePieces(pieces, solved.sources_, grid.has_value());
  const NearDemands near = FindNearDemands(pieces, demands, complete);
  solved.near_boxes_ = BoxesOf(near, demands);
  OwnerChoice choice(pieces, demands, options, solved.lists_);
  StepBuilder steps(demands, options, solved.lists_);
  choice.AddNear(near, solved.near_boxes_, steps);
  solved.wants_ = Distinct(demands, std::span<const int32_t>(near.far));
  if (!solved.wants_.boxes.empty()) {
    std::optional<Regions> overlaps;
    std::optional<OverlapSums> sums;
    if (grid.has_value() && complete.all && !near.far_overlap) {
      overlaps = OverlapRegions(solved.sources_, *grid, solved.wants_);
      if (overlaps.has_value()) SortByHolder(pieces, overlaps->list);
    } else if (!grid.has_value() && options.collectives && options.reduction == Reduction::kSum) {
      sums = FindOverlapSums(pieces, demands, solved.sources_, solved.wants_);
    }
    if (sums.has_value()) {
      solved.part_boxes_ = std::move(sums->boxes);
      solved.summed_ = std::move(sums->of_collectives);
      choice.AddParts(sums->parts, !solved.summed_.boxes.empty(), steps);
      if (!solved.summed_.boxes.empty()) {
        solved.regions_ = FindRegions(solved.summed_, solved.wants_, solved.lists_);
      }
    } else {
      solved.regions_ = overlaps.has_value()
                            ? *std::move(overlaps)
                            : FindRegions(solved.sources_, solved.wants_, solved.lists_);
    }
  }
  for (const Region& region : solved.regions_.list) choice.AddFlows(region, steps);
  choice.AddCopies(near, solved.near_boxes_, steps);
  solved.steps_ = std::move(steps).Finish();
  return solved;
}

int64_t ElementsSent(const ExchangeStep& step) {
  int64_t elements = 0;
  for (const Flow& flow : step.flows) {
    const int64_t volume = VolumeOf(flow.boxes);
    for (const Share& share : flow.owners) {
      for (DeviceId to : flow.destinations) elements += to == share.device ? 0 : volume;
    }
  }
  return elements;
}

}  // namespace partita

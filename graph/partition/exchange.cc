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
#include <optional>
#include <tuple>
#include <utility>

#include "graph/partition/windows.h"
#include "graph/support/check.h"

namespace partita {
namespace {

std::vector<DeviceId> OwnersOf(const Flow& flow) {
  std::vector<DeviceId> owners;
  owners.reserve(flow.owners.size());
  for (const Share& share : flow.owners) owners.push_back(share.device);
  return owners;
}

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
  StepBuilder(std::span<const Demand> demands, const ExchangeOptions& options, SpanArena& lists)
      : demands_(demands),
        collectives_(options.collectives),
        direct_elements_(options.direct_elements),
        lists_(lists) {}

  void Add(const Flow& flow) {
    if (flow.owners.size() == 1 && flow.destinations.size() == 1) {
      const bool is_local = flow.owners[0].device == flow.destinations[0];
      return (is_local ? local_ : transfers_).push_back(flow);
    }
    const std::vector<DeviceId> owners = OwnersOf(flow);
    const auto to = flow.destinations;
    if (!collectives_ && (owners.size() <= 2 || to.size() == 1)) {
      transfers_.push_back(flow);
    } else if (!collectives_) {
      AddReduceAndBroadcast(flow, owners);
    } else if (owners.size() == 1) {
      std::vector<DeviceId> group = Union(owners, to);
      if (group.size() == 2) {
        transfers_.push_back(flow);
      } else {
        gathers_[std::move(group)].push_back(flow);
      }
    } else if (std::equal(owners.begin(), owners.end(), to.begin(), to.end())) {
      all_reduces_[{owners, {}}].push_back(flow);
    } else if (to.size() == 1) {
      if (owners.size() >= 3 && std::binary_search(owners.begin(), owners.end(), to[0])) {
        reduces_[owners].push_back(flow);
      } else {
        transfers_.push_back(flow);
      }
    } else {
      AddReduceAndBroadcast(flow, owners);
    }
  }

  // Adds an all-reduce for each of several groups that sum the same terms.
  void AddReplicas(std::span<const Flow> flows) {
    std::vector<std::vector<DeviceId>> groups;
    for (const Flow& flow : flows) groups.push_back(OwnersOf(flow));
    for (size_t k = 0; k < flows.size(); ++k) {
      all_reduces_[{groups[k], groups}].push_back(flows[k]);
    }
  }

  std::vector<ExchangeStep> Finish() && {
    TakeDirect(gathers_, transfers_);
    TakeDirect(late_gathers_, late_transfers_);
    std::vector<ExchangeStep> steps;
    if (!local_.empty()) steps.push_back({ExchangeStep::Kind::kLocal, {}, std::move(local_)});
    for (auto& [group, flows] : all_reduces_) {
      steps.push_back(
          {ExchangeStep::Kind::kAllReduce, group.ranks, std::move(flows), group.replica_groups});
    }
    for (auto& [group, flows] : reduces_) {
      steps.push_back({ExchangeStep::Kind::kReduceScatter, group, std::move(flows)});
    }
    AppendTransfers(transfers_, steps);
    for (auto& [group, flows] : gathers_) {
      steps.push_back({ExchangeStep::Kind::kAllGather, group, std::move(flows)});
    }
    AppendTransfers(late_transfers_, steps);
    for (auto& [group, flows] : late_gathers_) {
      steps.push_back({ExchangeStep::Kind::kAllGather, group, std::move(flows)});
    }
    return steps;
  }

 private:
  using FlowsByGroup = std::map<std::vector<DeviceId>, std::vector<Flow>>;

  // Destinations of a flow with one owner, without that.
  static int64_t ReceiversOf(const Flow& flow) {
    const auto& to = flow.destinations;
    return std::count_if(to.begin(), to.end(),
                         [&](DeviceId device) { return device != flow.owners[0].device; });
  }

  // Whether the flows of an all-gather have one owner and go point to point.
  bool IsDirect(std::span<const Flow> flows) const {
    int64_t elements = 0;
    for (const Flow& flow : flows) {
      if (flow.owners[0].device != flows[0].owners[0].device) return false;
      elements += VolumeOf(flow.boxes) * ReceiversOf(flow);
    }
    return elements <= direct_elements_;
  }

  void TakeDirect(FlowsByGroup& gathers, std::vector<Flow>& transfers) const {
    for (auto it = gathers.begin(); it != gathers.end();) {
      const std::vector<Flow>& flows = it->second;
      if (!IsDirect(flows)) {
        ++it;
        continue;
      }
      transfers.insert(transfers.end(), flows.begin(), flows.end());
      it = gathers.erase(it);
    }
  }

  static std::vector<DeviceId> Union(std::span<const DeviceId> a, std::span<const DeviceId> b) {
    std::vector<DeviceId> all;
    all.reserve(a.size() + b.size());
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
    const Share finished{root, DemandOf(flow, root), {}};
    const Flow second{flow.boxes, lists_.CopyOne(finished), lists_.Copy<DeviceId>(rest),
                      flow.demands};
    if (rest.size() == 1 || !collectives_) {
      late_transfers_.push_back(second);
    } else {
      late_gathers_[Union({&root, 1}, rest)].push_back(second);
    }
    flow.destinations = lists_.CopyOne(root);
    Add(flow);
  }

  int32_t DemandOf(const Flow& flow, DeviceId device) const {
    for (int32_t j : flow.demands) {
      if (demands_[static_cast<size_t>(j)].device == device) return j;
    }
    CHECK(false) << "device " << device.value() << " does not want the region";
    return -1;
  }

  // One owner, one destination, for all ordered pairs of at least three devices: an all-to-all.
  // Otherwise transfers, one group for each set of connected devices, by their roots.
  void AppendTransfers(std::span<const Flow> flows, std::vector<ExchangeStep>& steps) const {
    DeviceSets sets;
    for (const Flow& flow : flows) {
      const DeviceId first = flow.owners[0].device;
      for (const Share& share : flow.owners) sets.Join(first, share.device);
      for (DeviceId to : flow.destinations) sets.Join(first, to);
    }
    const std::vector<DeviceId> members = sets.members();
    if (members.empty()) return;
    std::vector<int32_t> step_of_root(members.back().index() + 1, -1);
    for (DeviceId device : members) step_of_root[sets.RootOf(device).index()] = 0;
    std::vector<ExchangeStep> groups;
    for (int32_t& step : step_of_root) {
      if (step < 0) continue;
      step = static_cast<int32_t>(groups.size());
      groups.emplace_back().kind = ExchangeStep::Kind::kTransfers;
    }
    const auto step_of = [&](DeviceId device) -> ExchangeStep& {
      return groups[static_cast<size_t>(step_of_root[sets.RootOf(device).index()])];
    };
    for (DeviceId device : members) step_of(device).group.push_back(device);
    for (const Flow& flow : flows) step_of(flow.owners[0].device).flows.push_back(flow);
    for (ExchangeStep& step : groups) {
      if (collectives_ && IsAllToAll(step)) step.kind = ExchangeStep::Kind::kAllToAll;
      steps.push_back(std::move(step));
    }
  }

  // Whether every ordered pair of devices has flows, each with one destination besides its owner.
  static bool IsAllToAll(const ExchangeStep& step) {
    const size_t n = step.group.size(), wanted = n * (n - 1);
    if (n < 3 || step.flows.size() < wanted) return false;
    std::vector<size_t> rank(step.group.back().index() + 1, 0);
    for (size_t r = 0; r < n; ++r) rank[step.group[r].index()] = r;
    std::vector<bool> met(n * n, false);
    size_t pairs = 0;
    for (const Flow& flow : step.flows) {
      if (flow.owners.size() != 1 || ReceiversOf(flow) != 1) return false;
      const DeviceId from = flow.owners[0].device;
      for (DeviceId to : flow.destinations) {
        const size_t pair = rank[from.index()] * n + rank[to.index()];
        if (to == from || met[pair]) continue;
        met[pair] = true;
        ++pairs;
      }
    }
    return pairs == wanted;
  }

  std::span<const Demand> demands_;
  const bool collectives_;
  const int64_t direct_elements_;
  SpanArena& lists_;
  std::vector<Flow> local_, transfers_, late_transfers_;
  // Replicas of one region, and of all regions that have the same groups, must have equal elements
  // at equal places: an algorithm's order of ranks depends on the place.
  struct AllReduceGroup {
    std::vector<DeviceId> ranks;
    std::vector<std::vector<DeviceId>> replica_groups;
    auto operator<=>(const AllReduceGroup&) const = default;
  };
  std::map<AllReduceGroup, std::vector<Flow>> all_reduces_;
  FlowsByGroup reduces_, gathers_, late_gathers_;
};

// Chooses owners for one region after another and splits its destinations among them.
class OwnerChoice {
 public:
  OwnerChoice(std::span<const Piece> pieces, std::span<const Demand> demands,
              const ExchangeOptions& options, SpanArena& lists)
      : pieces_(pieces), demands_(demands), options_(options), lists_(lists) {}

  void AddFlows(const Region& region, StepBuilder& steps) {
    destinations_.clear();
    for (int32_t j : region.demands) destinations_.push_back(DemandAt(j).device);
    if (destinations_.size() > 1) {
      std::sort(destinations_.begin(), destinations_.end());
      destinations_.erase(std::unique(destinations_.begin(), destinations_.end()),
                          destinations_.end());
    }
    const int64_t term = TermOf(region.pieces[0]);
    const bool one_term = std::all_of(region.pieces.begin(), region.pieces.end(),
                                      [&](int32_t piece) { return TermOf(piece) == term; });
    if (one_term && region.pieces.size() == 1) {
      AddFlow(region, {PieceAt(region.pieces[0]).device, -1, region.pieces}, steps);
    } else if (one_term) {
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

  // Adds the flow of a region to all that want it.
  void AddFlow(const Region& region, const Share& owner, StepBuilder& steps) {
    steps.Add({region.boxes, lists_.CopyOne(owner), lists_.Copy<DeviceId>(destinations_),
               region.demands});
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
    const auto share_of = [&](size_t holder) {
      const Holder& own = holders_[holder];
      return Share{own.device, -1, lists_.CopyOne(own.piece)};
    };
    if (holders_.size() == 1) return AddFlow(region, share_of(0), steps);
    FindNodes();
    served_.clear();
    size_t turn = 0;
    for (DeviceId to : destinations_) served_.push_back({HolderFor(to, turn), to.value()});
    AddServed(region, [&](size_t holder, std::span<const DeviceId> to, auto demands) {
      const Share owner = share_of(holder);
      steps.Add({region.boxes, lists_.CopyOne(owner), lists_.Copy<DeviceId>(to), demands});
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
      to = {destinations_};
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
  // Of the region at hand.
  std::vector<DeviceId> destinations_;  // sorted, each once
  std::vector<Holder> holders_;
  std::vector<Copy> copies_;
  std::vector<std::pair<int32_t, size_t>> by_node_;
  std::vector<Served> served_, wants_;
  // Lists about to be copied.
  std::vector<DeviceId> to_;
  std::vector<int32_t> wanted_;
};

}  // namespace

SolvedExchange Exchange(std::span<const Piece> pieces, std::span<const Demand> demands,
                        const ExchangeOptions& options) {
  SolvedExchange solved;
  solved.sources_ = Distinct(pieces);
  solved.wants_ = Distinct(demands);
  if (solved.sources_.boxes.empty() || solved.wants_.boxes.empty()) return solved;
  solved.regions_ = FindRegions(solved.sources_, solved.wants_, solved.lists_);
  OwnerChoice choice(pieces, demands, options, solved.lists_);
  StepBuilder steps(demands, options, solved.lists_);
  for (const Region& region : solved.regions_.list) choice.AddFlows(region, steps);
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

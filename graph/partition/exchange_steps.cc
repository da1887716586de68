#include "graph/partition/exchange_steps.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/container/inlined_vector.h"
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

// Destinations of a flow with one owner, without that.
int64_t CountReceivers(const Flow& flow) {
  const DeviceId owner = flow.owners[0].device;
  return std::count_if(flow.destinations.begin(), flow.destinations.end(),
                       [owner](DeviceId device) { return device != owner; });
}

// The destinations of a flow with one owner, without that.
std::vector<DeviceId> Receivers(const Flow& flow) {
  std::vector<DeviceId> receivers;
  std::ranges::remove_copy(flow.destinations, std::back_inserter(receivers), flow.owners[0].device);
  return receivers;
}

bool HaveOneOwner(std::span<const Flow> flows) {
  return std::ranges::all_of(
      flows, [&](const Flow& flow) { return flow.owners[0].device == flows[0].owners[0].device; });
}

// Devices that own flows with one owner each; sorted.
std::vector<DeviceId> FirstOwners(std::span<const Flow> flows) {
  std::vector<DeviceId> owners;
  owners.reserve(flows.size());
  for (const Flow& flow : flows) owners.push_back(flow.owners[0].device);
  std::sort(owners.begin(), owners.end());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  return owners;
}

// Groups of devices, counted, and the devices in them.
class GroupCount {
 public:
  void Add(std::span<const DeviceId> group) {
    ++groups_;
    for (DeviceId device : group) {
      if (met_.size() <= device.index()) met_.resize(device.index() + 1, false);
      devices_ += met_[device.index()] ? 0 : 1;
      met_[device.index()] = true;
    }
  }
  // Whether a device is in more of the groups, in the mean, than a group has devices: they would keep
  // it busy one after another.
  bool are_scattered() const { return groups_ > devices_; }

 private:
  size_t groups_ = 0, devices_ = 0;
  std::vector<bool> met_;  // indexed by DeviceId
};

GroupCount CountOf(FlowsByGroup& flows) {
  GroupCount count;
  flows.ForEach([&](std::span<const DeviceId> group, std::span<const Flow>) { count.Add(group); });
  return count;
}

// Sets of devices that join, each with one of them as its root.
class DeviceSets {
 public:
  void Join(DeviceId a, DeviceId b) {
    const DeviceId from = RootOf(b), to = RootOf(a);
    if (from != to) parent_[from.index()] = to.value();
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

// Whether every ordered pair of devices has flows, each with one destination besides its owner.
bool IsAllToAll(const ExchangeStep& step) {
  const size_t n = step.group.size(), wanted = n * (n - 1);
  if (n < 3 || step.flows.size() < wanted) return false;
  std::vector<size_t> rank(step.group.back().index() + 1, 0);
  for (size_t r = 0; r < n; ++r) rank[step.group[r].index()] = r;
  std::vector<bool> met(n * n, false);
  size_t pairs = 0;
  for (const Flow& flow : step.flows) {
    if (flow.adds || flow.owners.size() != 1 || CountReceivers(flow) != 1) return false;
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

// Owners of an all-gather, and others, from which on they gather apart; of fewer owners the relays
// would be slower than one all-gather.
constexpr size_t kApart = 4;

// The devices of an all-gather that own something of what it gathers, and the others, all of whom
// want it. Both sorted.
struct GatherGroups {
  std::vector<DeviceId> owners, others;

  bool are_apart() const { return owners.size() >= kApart && others.size() >= kApart; }
  // Who of the others gets what an owner has.
  DeviceId RelayOf(DeviceId owner) const {
    const auto place = std::lower_bound(owners.begin(), owners.end(), owner) - owners.begin();
    return others[static_cast<size_t>(place) * others.size() / owners.size()];
  }
};

GatherGroups GatherGroupsOf(std::span<const DeviceId> group, std::span<const Flow> flows) {
  GatherGroups parts{.owners = FirstOwners(flows), .others = {}};
  std::ranges::set_difference(group, parts.owners, std::back_inserter(parts.others));
  return parts;
}

}  // namespace

void FlowsByGroup::Add(std::span<const DeviceId> group, const Flow& flow) {
  auto at = index_.find(Group{group});
  if (at == index_.end()) {
    const auto number = static_cast<int32_t>(groups_.size());
    groups_.push_back({lists_.Copy(group)});
    at = index_.emplace(groups_.back(), number).first;
  }
  is_sorted_ &= flows_.empty();
  flows_.push_back(flow);
  group_of_.push_back(at->second);
}

void FlowsByGroup::Sort() {
  if (std::exchange(is_sorted_, true)) return;
  std::vector<size_t> groups(groups_.size()), next(groups_.size(), 0);
  std::iota(groups.begin(), groups.end(), size_t{0});
  std::sort(groups.begin(), groups.end(), [this](size_t a, size_t b) {
    return std::ranges::lexicographical_compare(groups_[a].devices, groups_[b].devices);
  });
  for (int32_t group : group_of_) ++next[static_cast<size_t>(group)];
  size_t begin = 0;
  for (size_t group : groups) begin += std::exchange(next[group], begin);
  std::vector<Flow> flows(flows_.size());
  std::vector<int32_t> group_of(flows_.size());
  for (size_t f = 0; f < flows_.size(); ++f) {
    const size_t place = next[static_cast<size_t>(group_of_[f])]++;
    flows[place] = flows_[f];
    group_of[place] = group_of_[f];
  }
  flows_ = std::move(flows);
  group_of_ = std::move(group_of);
}

void StepBuilder::Add(const Flow& flow) {
  const auto& [boxes, owners, to, demands, adds] = flow;
  if (owners.size() > 1) return AddSum(flow);
  if (to.size() > 1) return AddBroadcast(flow, gathers_, transfers_);
  (owners[0].device == to[0] ? local_ : adds ? added_ : transfers_).push_back(flow);
}

// Of one owner to several destinations: at least one is another device.
void StepBuilder::AddBroadcast(const Flow& flow, FlowsByGroup& gathers,
                               std::vector<Flow>& transfers) {
  const DeviceId owner = flow.owners[0].device;
  const bool is_pair = CountReceivers(flow) == 1;
  if (!options_.collectives || is_pair) return transfers.push_back(flow);
  group_.clear();
  std::set_union(&owner, &owner + 1, flow.destinations.begin(), flow.destinations.end(),
                 std::back_inserter(group_));
  gathers.Add(group_, flow);
}

void StepBuilder::AddSum(const Flow& flow) {
  const auto to = flow.destinations;
  if (!options_.collectives) {
    if (flow.owners.size() > 2 && to.size() > 1) return AddReduceAndBroadcast(flow);
    return transfers_.push_back(flow);
  }
  std::vector<DeviceId> owners = OwnersOf(flow);
  if (std::ranges::equal(owners, to)) {
    all_reduces_[{std::move(owners), {}}].push_back(flow);
  } else if (to.size() > 1) {
    AddReduceAndBroadcast(flow);
  } else if (owners.size() >= 3 && std::binary_search(owners.begin(), owners.end(), to[0])) {
    reduces_.Add(owners, flow);
  } else {
    transfers_.push_back(flow);
  }
}

void StepBuilder::AddReplicas(std::span<const Flow> flows) {
  std::vector<std::vector<DeviceId>> groups;
  for (const Flow& flow : flows) groups.push_back(OwnersOf(flow));
  for (size_t k = 0; k < flows.size(); ++k) {
    all_reduces_[{groups[k], groups}].push_back(flows[k]);
  }
}

// Owners and destinations differ and both are several: reduce to one destination, broadcast from
// it.
void StepBuilder::AddReduceAndBroadcast(const Flow& flow) {
  const Halves halves = HalvesOf(flow);
  AddBroadcast(halves.broadcast, late_gathers_, late_transfers_);
  Add(halves.reduce);
}

StepBuilder::Halves StepBuilder::HalvesOf(const Flow& flow) const {
  std::vector<DeviceId> rest(flow.destinations.begin(), flow.destinations.end());
  const std::vector<DeviceId> owners = OwnersOf(flow);
  DeviceId root = rest[0];
  for (DeviceId to : rest) {
    if (std::binary_search(owners.begin(), owners.end(), to)) {
      root = to;
      break;
    }
  }
  rest.erase(std::find(rest.begin(), rest.end(), root));
  return {{flow.boxes, flow.owners, lists_.CopyOne(root), flow.demands},
          PassedOn(flow, root, lists_.Copy<DeviceId>(rest))};
}

Flow StepBuilder::PassedOn(const Flow& flow, DeviceId from, std::span<const DeviceId> to) const {
  const Share finished{from, DemandOf(flow, from), {}};
  return {flow.boxes, lists_.CopyOne(finished), to, flow.demands};
}

// Two shares commute.
void StepBuilder::AddDirectSum(const Flow& flow) {
  if (flow.destinations.size() == 1 || flow.owners.size() == 2) return transfers_.push_back(flow);
  const Halves halves = HalvesOf(flow);
  transfers_.push_back(halves.reduce);
  late_transfers_.push_back(halves.broadcast);
}

int32_t StepBuilder::DemandOf(const Flow& flow, DeviceId device) const {
  for (int32_t j : flow.demands) {
    if (demands_[static_cast<size_t>(j)].device == device) return j;
  }
  CHECK(false) << "device " << device.value() << " does not want the region";
  return -1;
}

// Transfers whose values are added come behind those that bring what they are added to.
std::vector<ExchangeStep> StepBuilder::Finish() && {
  std::vector<ExchangeStep> steps;
  if (!local_.empty()) steps.push_back({ExchangeStep::Kind::kLocal, {}, std::move(local_)});
  AppendSums(steps);
  transfers_.insert(transfers_.end(), added_.begin(), added_.end());
  AppendBroadcasts(gathers_, std::move(transfers_), steps);
  AppendBroadcasts(late_gathers_, std::move(late_transfers_), steps);
  if (!last_.empty()) steps.push_back({ExchangeStep::Kind::kLocal, {}, std::move(last_)});
  return steps;
}

// Whether few elements arrive at any device where the owners of these sums, all the same, send them to the
// destinations. Of two owners no more do than by any algorithm.
bool StepBuilder::AreSmallSums(std::span<const Flow> flows) const {
  const size_t owners = flows[0].owners.size();
  if (owners == 2) return true;
  const int64_t most = options_.direct_elements / static_cast<int64_t>(owners - 1);
  absl::InlinedVector<std::pair<DeviceId, int64_t>, 8> sums;  // by destination
  for (const Flow& flow : flows) {
    const int64_t volume = VolumeOf(flow.boxes);
    const bool is_spread = flow.destinations.size() > 1;  // from a sum at the first
    auto sum = std::ranges::find(sums, flow.destinations[0], [](const auto& s) { return s.first; });
    if (sum == sums.end()) sum = sums.insert(sum, {flow.destinations[0], 0});
    sum->second += is_spread ? 2 * volume : volume;
    if (sum->second > most) return false;
  }
  return true;
}

bool StepBuilder::AreSumsScattered() {
  if (all_reduces_.size() + reduces_.groups() <= 2) return false;
  GroupCount count;
  for (const auto& [group, flows] : all_reduces_) {
    if (group.replica_groups.empty() && AreSmallSums(flows)) count.Add(group.ranks);
  }
  reduces_.ForEach([&](std::span<const DeviceId> group, std::span<const Flow> flows) {
    if (AreSmallSums(flows)) count.Add(group);
  });
  return count.are_scattered();
}

// Collectives, but for small ones that are scattered; and small reduces go with other transfers: corners of
// blocks with their edges.
void StepBuilder::AppendSums(std::vector<ExchangeStep>& steps) {
  const bool are_scattered = AreSumsScattered(), has_transfers = !transfers_.empty();
  const auto append = [&](bool is_direct, ExchangeStep step) {
    if (!is_direct || !AreSmallSums(step.flows)) return steps.push_back(std::move(step));
    for (const Flow& flow : step.flows) AddDirectSum(flow);
  };
  for (auto& [group, flows] : all_reduces_) {
    append(are_scattered && group.replica_groups.empty(),
           {ExchangeStep::Kind::kAllReduce, group.ranks, std::move(flows), group.replica_groups});
  }
  reduces_.ForEach([&](std::span<const DeviceId> group, std::span<const Flow> flows) {
    append(are_scattered || has_transfers, {ExchangeStep::Kind::kReduceScatter,
                                            {group.begin(), group.end()},
                                            {flows.begin(), flows.end()}});
  });
}

// Transfers, among them broadcasts of few elements; then the all-gathers. In more groups than devices, in
// which not all own something, flows go by their destinations; if these are as scattered, point to point.
void StepBuilder::AppendBroadcasts(FlowsByGroup& gathers, std::vector<Flow> transfers,
                                   std::vector<ExchangeStep>& steps) const {
  std::vector<ExchangeStep> collectives;
  const bool are_scattered = AreScattered(gathers);
  FlowsByGroup by_receivers(lists_);
  gathers.ForEach([&](std::span<const DeviceId> group, std::span<const Flow> flows) {
    if (IsDirect(flows)) {
      transfers.insert(transfers.end(), flows.begin(), flows.end());
    } else if (are_scattered && FirstOwners(flows).size() < group.size()) {
      for (const Flow& flow : flows) by_receivers.Add(Receivers(flow), flow);
    } else {
      AppendGather(group, flows, transfers, collectives);
    }
  });
  const bool are_direct = CountOf(by_receivers).are_scattered();
  by_receivers.ForEach([&](std::span<const DeviceId> receivers, std::span<const Flow> flows) {
    if (!are_direct) return AppendRelayed(receivers, flows, transfers, collectives);
    transfers.insert(transfers.end(), flows.begin(), flows.end());
  });
  AppendTransfers(std::move(transfers), steps);
  std::move(collectives.begin(), collectives.end(), std::back_inserter(steps));
}

bool StepBuilder::AreScattered(FlowsByGroup& gathers) const {
  if (gathers.groups() <= 3) return false;
  GroupCount count;
  gathers.ForEach([&](std::span<const DeviceId> group, std::span<const Flow> flows) {
    if (FirstOwners(flows).size() < group.size() && !IsDirect(flows)) count.Add(group);
  });
  return count.are_scattered();
}

void StepBuilder::AppendRelayed(std::span<const DeviceId> receivers, std::span<const Flow> flows,
                                std::vector<Flow>& transfers,
                                std::vector<ExchangeStep>& collectives) const {
  std::vector<DeviceId> group(receivers.begin(), receivers.end());
  if (HaveOneOwner(flows)) {
    const DeviceId owner = flows[0].owners[0].device;
    group.insert(std::ranges::upper_bound(group, owner), owner);
    return AppendGather(group, flows, transfers, collectives);
  }
  ExchangeStep gather{ExchangeStep::Kind::kAllGather, group, {}};
  std::vector<std::span<const DeviceId>> others(receivers.size());  // than each receiver
  gather.flows.reserve(flows.size());
  for (size_t f = 0; f < flows.size(); ++f) {
    const Flow& flow = flows[f];
    const size_t place = f % receivers.size();
    const DeviceId relay = receivers[place];
    if (f == place) {
      std::vector<DeviceId> rest(receivers.begin(), receivers.end());
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(place));
      others[place] = lists_.Copy<DeviceId>(rest);
    }
    // The owner may want it, too.
    std::vector<DeviceId> first;
    std::ranges::copy_if(flow.destinations, std::back_inserter(first),
                         [&](DeviceId to) { return to == relay || to == flow.owners[0].device; });
    transfers.push_back({flow.boxes, flow.owners, lists_.Copy<DeviceId>(first), flow.demands});
    gather.flows.push_back(PassedOn(flow, relay, others[place]));
  }
  collectives.push_back(std::move(gather));
}

// In two groups, neither waits for the other: owners send what they own to one of the others, too.
void StepBuilder::AppendGather(std::span<const DeviceId> group, std::span<const Flow> flows,
                               std::vector<Flow>& transfers,
                               std::vector<ExchangeStep>& collectives) const {
  constexpr auto kAllGather = ExchangeStep::Kind::kAllGather;
  const GatherGroups parts = GatherGroupsOf(group, flows);
  if (!parts.are_apart()) {
    collectives.push_back({kAllGather, {group.begin(), group.end()}, {flows.begin(), flows.end()}});
    return;
  }
  std::vector<Flow> of_owners, of_others;
  for (const Flow& flow : flows) {
    const DeviceId relay = parts.RelayOf(flow.owners[0].device);
    std::vector<DeviceId> owners, others;
    std::ranges::set_intersection(flow.destinations, parts.owners, std::back_inserter(owners));
    std::ranges::remove_copy(parts.others, std::back_inserter(others), relay);
    of_owners.push_back({flow.boxes, flow.owners, lists_.Copy<DeviceId>(owners), flow.demands});
    transfers.push_back({flow.boxes, flow.owners, lists_.CopyOne(relay), flow.demands});
    of_others.push_back(PassedOn(flow, relay, lists_.Copy<DeviceId>(others)));
  }
  collectives.push_back({kAllGather, parts.owners, std::move(of_owners)});
  collectives.push_back({kAllGather, parts.others, std::move(of_others)});
}

// Whether the flows of an all-gather have one owner and go point to point.
bool StepBuilder::IsDirect(std::span<const Flow> flows) const {
  if (!HaveOneOwner(flows)) return false;
  int64_t elements = 0;
  for (const Flow& flow : flows) elements += VolumeOf(flow.boxes) * CountReceivers(flow);
  return elements <= options_.direct_elements;
}

// One owner, one destination, for all ordered pairs of at least three devices: an all-to-all.
// Otherwise transfers, one group for each set of connected devices, by their roots.
void StepBuilder::AppendTransfers(std::vector<Flow> flows, std::vector<ExchangeStep>& steps) const {
  DeviceSets sets;
  for (const Flow& flow : flows) {
    const DeviceId first = flow.owners[0].device;
    for (const Share& share : flow.owners.subspan(1)) sets.Join(first, share.device);
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
  if (groups.size() == 1) {
    groups[0].flows = std::move(flows);
  } else {
    for (ExchangeStep& step : groups) step.flows.reserve(flows.size() / groups.size());
    for (const Flow& flow : flows) step_of(flow.owners[0].device).flows.push_back(flow);
  }
  for (ExchangeStep& step : groups) {
    if (options_.collectives && IsAllToAll(step)) step.kind = ExchangeStep::Kind::kAllToAll;
    steps.push_back(std::move(step));
  }
}

}  // namespace partita

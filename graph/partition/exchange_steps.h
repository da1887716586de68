#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/partition/exchange.h"
#include "graph/support/span_arena.h"

namespace partita {

// Flows by group.
class FlowsByGroup {
 public:
  // The arena gets the groups, and outlives this.
  explicit FlowsByGroup(SpanArena& lists) : lists_(lists) {}

  void Add(std::span<const DeviceId> group, const Flow& flow);
  size_t groups() const { return groups_.size(); }
  // Calls visit(group, flows) for each group in the order of their devices, with its flows in the
  // order in which they were added.
  template <class Visit>
  void ForEach(Visit&& visit) {
    Sort();
    for (size_t first = 0, behind = 0; first < flows_.size(); first = behind) {
      const int32_t group = group_of_[first];
      while (behind < flows_.size() && group_of_[behind] == group) ++behind;
      visit(groups_[static_cast<size_t>(group)].devices,
            std::span<const Flow>(flows_).subspan(first, behind - first));
    }
  }

 private:
  struct Group {
    std::span<const DeviceId> devices;

    friend bool operator==(const Group& a, const Group& b) {
      return std::ranges::equal(a.devices, b.devices);
    }
    template <class H>
    friend H AbslHashValue(H h, const Group& group) {
      h = H::combine_contiguous(std::move(h), group.devices.data(), group.devices.size());
      return H::combine(std::move(h), group.devices.size());
    }
  };

  // Sorts the flows by their groups, and these by their devices.
  void Sort();

  SpanArena& lists_;
  absl::flat_hash_map<Group, int32_t> index_;
  std::vector<Group> groups_;
  std::vector<Flow> flows_;
  std::vector<int32_t> group_of_;  // indexed by flow
  bool is_sorted_ = true;
};

// Collects flows by shape and group, and orders the steps.
class StepBuilder {
 public:
  // Arguments outlive the builder.
  StepBuilder(std::span<const Demand> demands, const ExchangeOptions& options, SpanArena& lists)
      : demands_(demands),
        options_(options),
        lists_(lists),
        reduces_(lists),
        gathers_(lists),
        late_gathers_(lists) {}

  void Add(const Flow& flow);
  // Adds a flow of one device behind those of other steps.
  void AddLast(const Flow& flow) { last_.push_back(flow); }
  // Adds an all-reduce for each of several groups that sum the same terms.
  void AddReplicas(std::span<const Flow> flows);
  std::vector<ExchangeStep> Finish() &&;

 private:
  // Replicas of one region, and of all regions that have the same groups, must have equal elements
  // at equal places: an algorithm's order of ranks depends on the place.
  struct AllReduceGroup {
    std::vector<DeviceId> ranks;
    std::vector<std::vector<DeviceId>> replica_groups;
    auto operator<=>(const AllReduceGroup&) const = default;
  };

  void AddBroadcast(const Flow& flow, FlowsByGroup& gathers, std::vector<Flow>& transfers);
  void AddSum(const Flow& flow);
  void AddReduceAndBroadcast(const Flow& flow);
  // Halves of a sum for several destinations: the sum at one of them, and what it sends to the others.
  struct Halves {
    Flow reduce, broadcast;
  };
  Halves HalvesOf(const Flow& flow) const;
  // A flow's value from one of its destinations, which has it in a demand, to others.
  Flow PassedOn(const Flow& flow, DeviceId from, std::span<const DeviceId> to) const;
  // Adds a sum whose owners send their shares to the destinations, or to one of them.
  void AddDirectSum(const Flow& flow);
  bool AreSmallSums(std::span<const Flow> flows) const;
  // Whether the small sums are of more groups than devices.
  bool AreSumsScattered();
  void AppendSums(std::vector<ExchangeStep>& steps);
  void AppendBroadcasts(FlowsByGroup& gathers, std::vector<Flow> transfers,
                        std::vector<ExchangeStep>& steps) const;
  bool AreScattered(FlowsByGroup& gathers) const;
  // Broadcasts of several owners to the same devices, as an all-gather of these: each of them gets some
  // from the owners.
  void AppendRelayed(std::span<const DeviceId> receivers, std::span<const Flow> flows,
                     std::vector<Flow>& transfers, std::vector<ExchangeStep>& collectives) const;
  // An all-gather in a group; or, where many of it own nothing, in two groups.
  void AppendGather(std::span<const DeviceId> group, std::span<const Flow> flows,
                    std::vector<Flow>& transfers, std::vector<ExchangeStep>& collectives) const;
  void AppendTransfers(std::vector<Flow> flows, std::vector<ExchangeStep>& steps) const;
  bool IsDirect(std::span<const Flow> flows) const;
  int32_t DemandOf(const Flow& flow, DeviceId device) const;

  std::span<const Demand> demands_;
  const ExchangeOptions& options_;
  SpanArena& lists_;
  std::vector<Flow> local_, last_, transfers_, added_, late_transfers_;
  std::map<AllReduceGroup, std::vector<Flow>> all_reduces_;
  FlowsByGroup reduces_, gathers_, late_gathers_;
  std::vector<DeviceId> group_;  // of the flow at hand
};

}  // namespace partita

// The chain is followed from its end, through what a schedule has started: to the predecessor that ended
// last, or to what held a resource until later.
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "planner/placed_step.h"

namespace partita {

// A schedule that came to its end, while joined tasks are one.
class PlacedStep::CriticalWalk {
 public:
  explicit CriticalWalk(const PlacedStep& step)
      : step_(step),
        bundles_(step.step_.bundles()),
        first_started_(bundles_.size(), kNone),
        next_started_(step.started_.size(), kNone),
        entry_begin_(bundles_.size() + 1, 0),
        held_by_(step.left_.size()) {
    for (size_t k = step.started_.size(); k-- > 0;) {
      const auto place = static_cast<size_t>(step.started_[k].bundle);
      next_started_[k] = std::exchange(first_started_[place], static_cast<int32_t>(k));
    }
    for (size_t k = 0; k < step.started_.size(); ++k) {
      const Bundle& bundle = BundleOf(static_cast<int32_t>(k));
      if (bundle.is_of_kernels()) continue;
      for (int32_t r : bundle.held()) {
        held_by_[static_cast<size_t>(r)].push_back(static_cast<int32_t>(k));
      }
    }
    FindEntries();
  }

  // Durations of the chain's tasks, by subject.
  std::vector<Nanos> Times() {
    std::vector<Nanos> times(static_cast<size_t>(step_.distances_.subjects()));
    for (At at = Last(); at.started != kNone; at = AwaitedBy(at)) {
      const Bundle& bundle = BundleOf(at.started);
      const ChainLink& link = step_.cache_.chain()[static_cast<size_t>(bundle.link)];
      times[static_cast<size_t>(SubjectOf(step_.distances_, link))] += Nanos(bundle.duration);
    }
    return times;
  }

 private:
  static constexpr int32_t kNone = -1;

  // A task: what started, and one of its lanes.
  struct At {
    int32_t started = kNone;
    int32_t lane = 0;
  };
  // An edge, as the bundle sees it that it leads to; null: from the only task of the other one.
  struct Entry {
    int32_t from = 0;
    const BundledStep::Edge* edge = nullptr;
  };

  const Started& StartedAt(int32_t started) const {
    return step_.started_[static_cast<size_t>(started)];
  }
  const Bundle& BundleOf(int32_t started) const {
    return bundles_[static_cast<size_t>(StartedAt(started).bundle)];
  }
  int64_t EndOf(int32_t started) const {
    return StartedAt(started).time + BundleOf(started).duration;
  }
  // The task's place in the order of keys.
  std::pair<int32_t, int32_t> KeyOf(const At& at) const {
    const auto place = static_cast<size_t>(StartedAt(at.started).bundle);
    const Bundle& bundle = bundles_[place];
    const auto link = static_cast<size_t>(bundle.link);
    const FlatFragment& fragment = step_.step_.fragment(link);
    const TaskBundle& own =
        fragment.bundles.bundles[static_cast<size_t>(step_.step_.NumberOf(place))];
    const int32_t before = bundle.is_of_kernels() ? LanesBefore(own.lanes, at.lane) : 0;
    const int32_t task = fragment.bundles.tasks[static_cast<size_t>(own.first + before)];
    return {step_.keys_[link].first + step_.step_.BundlesOf(link).begin,
            fragment.key_place[static_cast<size_t>(task)]};
  }
  // Whether the task ends later, or is the first by key of two that end together.
  bool IsLater(const At& at, const At& other) const {
    if (other.started == kNone) return true;
    const int64_t end = EndOf(at.started), other_end = EndOf(other.started);
    return end != other_end ? end > other_end : KeyOf(at) < KeyOf(other);
  }
  void Raise(At& last, const At& at) const {
    if (IsLater(at, last)) last = at;
  }

  At Last() const {
    At last;
    int64_t end = std::numeric_limits<int64_t>::min();
    for (size_t k = 0; k < step_.started_.size(); ++k) {
      const auto started = static_cast<int32_t>(k);
      if (EndOf(started) < end) continue;
      end = EndOf(started);
      ForEachLane(step_.started_[k].lanes, [&](int lane) { Raise(last, {started, lane}); });
    }
    return last;
  }

  // Place in started_ of that lane of the bundle.
  int32_t FindStarted(size_t place, int32_t lane) const {
    int32_t started = first_started_[place];
    while (bundles_[place].is_of_kernels() && (StartedAt(started).lanes >> lane & 1) == 0) {
      started = next_started_[static_cast<size_t>(started)];
    }
    return started;
  }

  void FindEntries() {
    const auto for_each = [&](auto&& visit) {
      for (size_t from = 0; from < bundles_.size(); ++from) {
        if (first_started_[from] == kNone) continue;
        const Bundle& bundle = bundles_[from];
        for (int32_t follower : bundle.followers()) {
          visit(step_.InPlaceOf(follower), Entry{static_cast<int32_t>(from)});
        }
        for (int32_t k = 0; k < bundle.edge_count; ++k) {
          const auto to = static_cast<size_t>(bundle.edges[k].to);
          visit(bundle.edges[k].leads_to_one() ? step_.InPlaceOf(bundle.edges[k].to) : to,
                Entry{static_cast<int32_t>(from), bundle.edges + k});
        }
      }
    };
    for_each([&](size_t to, const Entry&) { ++entry_begin_[to + 1]; });
    for (size_t k = 1; k < entry_begin_.size(); ++k) entry_begin_[k] += entry_begin_[k - 1];
    entries_.resize(entry_begin_.back());
    std::vector<size_t> next(entry_begin_.begin(), entry_begin_.end() - 1);
    for_each([&](size_t to, const Entry& entry) { entries_[next[to]++] = entry; });
  }

  // The predecessor that ends last.
  At LastPredecessorOf(const At& at) const {
    At last;
    const auto place = static_cast<size_t>(StartedAt(at.started).bundle);
    for (size_t k = entry_begin_[place]; k < entry_begin_[place + 1]; ++k) {
      const auto from = static_cast<size_t>(entries_[k].from);
      if (entries_[k].edge == nullptr) {
        Raise(last, {first_started_[from], std::countr_zero(bundles_[from].lanes)});
        continue;
      }
      const BundledStep::Edge& edge = *entries_[k].edge;
      const bool to_one = edge.leads_to_one();
      if (!bundles_[from].is_of_kernels()) {
        const bool leads_here = to_one || (edge.lanes >> at.lane & 1) != 0;
        if (leads_here) Raise(last, {first_started_[from], 0});
        continue;
      }
      uint64_t lanes = edge.lanes;
      if (!to_one) lanes &= std::rotr(uint64_t{1} << at.lane, edge.turn);
      ForEachLane(lanes, [&](int lane) { Raise(last, {FindStarted(from, lane), lane}); });
    }
    return last;
  }

  At AwaitedBy(const At& at) const {
    At last = LastPredecessorOf(at);
    const auto offer = [&](const At& before) {
      if (last.started == kNone || EndOf(before.started) > EndOf(last.started)) last = before;
    };
    // Nothing that held a resource of it ended later than it started.
    const bool is_last = last.started != kNone && EndOf(last.started) == StartedAt(at.started).time;
    if (is_last) return last;
    const Bundle& bundle = BundleOf(at.started);
    if (!bundle.is_of_kernels()) {
      for (int32_t r : bundle.held()) {
        const std::vector<int32_t>& holders = held_by_[static_cast<size_t>(r)];
        const auto own = std::lower_bound(holders.begin(), holders.end(), at.started);
        if (own != holders.begin()) offer({*(own - 1), 0});
      }
      return last;
    }
    for (int32_t before = at.started; before-- > 0;) {
      const bool is_on_lane =
          BundleOf(before).block == bundle.block && (StartedAt(before).lanes >> at.lane & 1) != 0;
      if (!is_on_lane) continue;
      offer({before, at.lane});
      break;
    }
    return last;
  }

  const PlacedStep& step_;
  const std::vector<Bundle>& bundles_;
  std::vector<int32_t> first_started_;  // by place of the bundle: the first of what started of it
  std::vector<int32_t> next_started_;   // the next one of the same bundle
  std::vector<size_t> entry_begin_;     // by place of the bundle: its rows of entries
  std::vector<Entry> entries_;
  std::vector<std::vector<int32_t>> held_by_;  // by resource: single tasks that held it
};

PlacedStep::Critical PlacedStep::FindCritical(std::span<const JoinedTasks> joined) {
  StartWork(joined);
  const Nanos length = Run(Nanos(std::numeric_limits<int64_t>::max()), joined);
  Critical critical{length, CriticalWalk(*this).Times()};
  Part(joined);
  return critical;
}

}  // namespace partita

// A task's key is what its priority lacks of the largest, and behind that its place in the order of
// keys: that of its link's first bundle and its own in the link.
#include "planner/placed_step.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "graph/support/check.h"

namespace partita {
namespace {

// Each once.
std::vector<size_t> LinksOf(std::span<const JoinedTasks> joined) {
  std::vector<size_t> links;
  for (const JoinedTasks& one : joined) {
    for (const JoinedTasks::Member& member : one.members) links.push_back(member.link);
  }
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

}  // namespace

std::vector<size_t> KeyOrder(const std::vector<ChainLink>& chain) {
  std::vector<size_t> order(chain.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const ChainLink &x = chain[a], &y = chain[b];
    return std::tuple(x.is_tensor, x.id, x.group) < std::tuple(y.is_tensor, y.id, y.group);
  });
  return order;
}

int32_t SubjectOf(const GraphDistances& distances, const ChainLink& link) {
  return link.is_tensor ? distances.SubjectOf(TensorId(link.id))
                        : distances.SubjectOf(OpId(link.id));
}

PlacedStep::PlacedStep(const FragmentCache& cache, const FragmentLinker& linker,
                       const GraphDistances& distances, const SimulatedResources& resources)
    : cache_(cache),
      distances_(distances),
      lanes_(static_cast<size_t>(resources.devices())),
      step_(cache, linker, resources),
      by_key_(KeyOrder(cache.chain())),
      keys_(cache.chain().size()) {
  for (const ChainLink& link : cache.chain()) {
    yields_.push_back(distances.IsForUpdates(SubjectOf(distances, link)));
  }
}

int PlacedStep::number_bits() const {
  return std::bit_width(static_cast<uint64_t>(step_.bundles_in_all()));
}

bool PlacedStep::CanSimulate(std::span<const JoinedTasks> joined) const {
  int64_t total = step_.total();
  for (const JoinedTasks& one : joined) total += one.duration.value();
  const int end_bits = BundleState<uint64_t>::EndBits(lanes_, step_.bundles().size());
  const int bits = std::max(number_bits(), end_bits);
  const bool fits = std::bit_width(static_cast<uint64_t>(total)) + bits <= 64;
  return fits && step_.is_regular();
}

void PlacedStep::Start(std::span<const JoinedTasks> joined) {
  const size_t bundles = step_.bundles().size();
  joined_length_.resize(bundles, -1);
  started_.clear();
  list_.Prepare(left_.size(), lanes_, bundles);
  longest_.resize(step_.links());
  for (size_t link = 0; link < longest_.size(); ++link) longest_[link] = step_.longest(link);
  JoinPaths(joined);
  SetKeys();
  pending_ = step_.waits();
  lanes_pending_.resize(bundles);
  ++simulation_;
  high_pending_.resize(step_.high_waits().size());
  Join(joined);
}

void PlacedStep::SetKeys() {
  std::vector<int64_t> lengths(static_cast<size_t>(distances_.subjects()), 0);
  for (size_t link = 0; link < longest_.size(); ++link) {
    int64_t& length = lengths[static_cast<size_t>(SubjectOf(distances_, cache_.chain()[link]))];
    length = std::max(length, longest_[link]);
  }
  const std::vector<int64_t> behind = distances_.Behind(lengths);
  numbers_.resize(static_cast<size_t>(step_.bundles_in_all()));
  int32_t first = 0;
  for (size_t link : by_key_) {
    const auto subject = static_cast<size_t>(SubjectOf(distances_, cache_.chain()[link]));
    const Sections::Section& own = step_.BundlesOf(link);
    keys_[link] = {most_ - behind[subject], first - own.begin};
    first += own.size;
  }
}

void PlacedStep::JoinWork(std::span<const JoinedTasks> joined) {
  const auto add = [this](std::span<const int32_t> resources, int64_t time) {
    for (int32_t r : resources) left_[static_cast<size_t>(r)] += time;
    most_ += time;
  };
  for (const JoinedTasks& one : joined) {
    for (const JoinedTasks::Member& member : one.members) {
      const Bundle& bundle = step_.bundles()[static_cast<size_t>(PlaceOf(member))];
      add(bundle.held(), -bundle.duration);
    }
    add(one.resources, one.duration.value());
  }
}

// The key of joined tasks is that of the first, so they are in no path of the others' links.
void PlacedStep::JoinPaths(std::span<const JoinedTasks> joined) {
  for (const JoinedTasks& one : joined) {
    for (const JoinedTasks::Member& member : one.members) {
      joined_length_[static_cast<size_t>(PlaceOf(member))] = 0;
    }
    joined_length_[static_cast<size_t>(PlaceOf(one.members[0]))] = one.duration.value();
  }
  for (size_t link : LinksOf(joined)) FindPathsOf(link);
}

// Edges inside a link go from earlier tasks to later ones.
void PlacedStep::FindPathsOf(size_t link) {
  const FlatFragment& fragment = step_.fragment(link);
  std::vector<int64_t> paths(fragment.path.size());
  longest_[link] = 0;
  for (size_t t = paths.size(); t-- > 0;) {
    int64_t behind = 0;
    for (int32_t next : fragment.step.tasks.SuccessorsOf(t)) {
      behind = std::max(behind, paths[static_cast<size_t>(next)]);
    }
    const auto place = static_cast<size_t>(step_.PlaceOf(link, t));
    Bundle& bundle = step_.bundles()[place];
    const int64_t joined = joined_length_[place];
    paths[t] = joined == 0 ? 0 : (joined > 0 ? joined : bundle.duration) + behind;
    bundle.path = paths[t];
    longest_[link] = std::max(longest_[link], paths[t]);
  }
}

void PlacedStep::Join(std::span<const JoinedTasks> joined) {
  if (joined.empty()) return;
  std::vector<Bundle>& bundles = step_.bundles();
  std::vector<size_t> ends;  // of edges, by bucket
  joined_edges_.clear();
  for (const JoinedTasks& one : joined) {
    for (const JoinedTasks::Member& member : one.members) {
      const Bundle& bundle = bundles[static_cast<size_t>(PlaceOf(member))];
      joined_edges_.insert(joined_edges_.end(), bundle.edges, bundle.edges + bundle.edge_count);
    }
    ends.push_back(joined_edges_.size());
  }
  parted_.clear();
  size_t begin = 0;
  for (size_t b = 0; b < joined.size(); ++b) {
    const JoinedTasks& one = joined[b];
    const auto place = static_cast<size_t>(PlaceOf(one.members[0]));
    Bundle& first = bundles[place];
    parted_.push_back(first);
    first.duration = one.duration.value();
    first.list_count = static_cast<int32_t>(one.resources.size());
    if (one.resources.size() == 1) {
      first.resource = one.resources[0];
    } else {
      first.list = one.resources.data();
    }
    first.edges = joined_edges_.data() + begin;
    first.edge_count = first.shared_edges = static_cast<int32_t>(ends[b] - begin);
    begin = ends[b];
    for (size_t m = 1; m < one.members.size(); ++m) {
      const auto other = static_cast<size_t>(PlaceOf(one.members[m]));
      pending_[place] += pending_[other];
      pending_[other] = ~static_cast<int32_t>(place);
    }
  }
}

void PlacedStep::Part(std::span<const JoinedTasks> joined) {
  std::vector<Bundle>& bundles = step_.bundles();
  for (size_t b = 0; b < joined.size(); ++b) {
    bundles[static_cast<size_t>(PlaceOf(joined[b].members[0]))] = parted_[b];
    for (const JoinedTasks::Member& member : joined[b].members) {
      joined_length_[static_cast<size_t>(PlaceOf(member))] = -1;
    }
  }
  for (size_t link : LinksOf(joined)) {
    const TaskBundles& own = step_.fragment(link).bundles;
    const auto first = static_cast<size_t>(step_.BundlesOf(link).begin);
    for (size_t k = 0; k < own.bundles.size(); ++k) bundles[first + k].path = own.bundles[k].path;
  }
}

std::vector<Nanos> PlacedStep::Starts() const {
  // Starts by task, in the order of bundles and lanes.
  std::vector<int32_t> first(step_.bundles().size() + 1, 0);
  for (size_t place = 0; place < step_.bundles().size(); ++place) {
    first[place + 1] = first[place] + std::popcount(step_.bundles()[place].lanes);
  }
  std::vector<Nanos> by_lane(static_cast<size_t>(first.back()));
  for (const Started& one : started_) {
    const auto place = static_cast<size_t>(one.bundle);
    const uint64_t lanes = step_.bundles()[place].lanes;
    ForEachLane(one.lanes, [&](int lane) {
      by_lane[static_cast<size_t>(first[place] + LanesBefore(lanes, lane))] = Nanos(one.time);
    });
  }
  std::vector<Nanos> starts;
  starts.reserve(by_lane.size());
  for (size_t link = 0; link < step_.links(); ++link) {
    const TaskBundles& own = step_.fragment(link).bundles;
    for (size_t t = 0; t < own.bundle_of.size(); ++t) {
      const auto place = static_cast<size_t>(step_.PlaceOf(link, t));
      const int32_t before = LanesBefore(step_.bundles()[place].lanes, own.lane_of[t]);
      starts.push_back(by_lane[static_cast<size_t>(first[place] + before)]);
    }
  }
  return starts;
}

// The bundles as BundleScheduler wants them. Ends where the work left on a resource does not fit before
// the cutoff.
class PlacedStep::Simulation {
 public:
  Simulation(PlacedStep& step, int64_t cutoff)
      : step_(step),
        bundles_(step.step_.bundles()),
        cutoff_(cutoff),
        number_bits_(step.number_bits()),
        number_mask_((uint64_t{1} << number_bits_) - 1) {}

  // The length of the schedule, or a bound above the cutoff.
  int64_t length() const { return length_; }

  // Priority and place in the order of keys in one number, which makes the bundle known to TaskOf.
  uint64_t KeyOf(size_t bundle) {
    const Bundle& one = bundles_[bundle];
    const LinkKeys& of_link = step_.keys_[static_cast<size_t>(one.link)];
    const int32_t number = of_link.first + static_cast<int32_t>(bundle);
    step_.numbers_[static_cast<size_t>(number)] = static_cast<int32_t>(bundle);
    const auto lacking = static_cast<uint64_t>(of_link.most - one.path);
    return lacking << number_bits_ | static_cast<uint64_t>(number);
  }
  size_t TaskOf(uint64_t key) const {
    return static_cast<size_t>(step_.numbers_[static_cast<size_t>(key & number_mask_)]);
  }
  bool IsOfKernels(size_t bundle) const { return bundles_[bundle].is_of_kernels(); }
  int32_t BlockOf(size_t bundle) const { return bundles_[bundle].block; }
  std::span<const int32_t> ResourcesOf(size_t bundle) const { return bundles_[bundle].held(); }
  int64_t DurationOf(size_t bundle) const { return bundles_[bundle].duration; }
  bool Yields(size_t bundle) const {
    const Bundle& one = bundles_[bundle];
    return one.list_count > 1 && step_.yields_[static_cast<size_t>(one.link)] != 0;
  }

  template <class Visit>
  void Release(size_t bundle, uint64_t lanes, Visit&& visit) {
    const Bundle& one = bundles_[bundle];
    const BundledStep::Edge* const own = one.edges + one.shared_edges;
    const BundledStep::Edge* const end = one.edges + one.edge_count;
    if (one.is_one()) {
      for (int32_t follower : one.followers()) {
        const size_t next = step_.InPlaceOf(follower);
        if (--step_.pending_[next] == 0) visit(next, bundles_[next].lanes);
      }
      lanes = ~uint64_t{0};
    }
    const auto follow = [&](const BundledStep::Edge& edge) {
      const uint64_t followed = edge.lanes & lanes;
      if (followed == 0) return;
      if (edge.leads_to_one()) {
        const size_t next = step_.InPlaceOf(edge.to);
        if ((step_.pending_[next] -= CountOf(followed)) == 0) {
          visit(next, bundles_[next].lanes);
        }
      } else {
        const auto next = static_cast<size_t>(edge.to);
        const uint64_t ready = ReadyOf(next, std::rotl(followed, edge.turn));
        if (ready != 0) visit(next, ready);
      }
    };
    for (const BundledStep::Edge* edge = one.edges; edge != own; ++edge) follow(*edge);
    if (lanes == one.lanes || end - own < kFewEdges) {
      for (const BundledStep::Edge* edge = own; edge != end; ++edge) follow(*edge);
      return;
    }
    ForEachLane(lanes, [&](int lane) {
      const uint64_t bit = uint64_t{1} << lane;
      const BundledStep::Edge* edge = std::lower_bound(
          own, end, bit, [](const BundledStep::Edge& a, uint64_t b) { return a.lanes < b; });
      for (; edge != end && edge->lanes == bit; ++edge) follow(*edge);
    });
  }

  void Rest(size_t block, uint64_t lanes, int64_t time) {
    ForEachLaneOf(block, lanes, [&](size_t lane) { step_.rests_since_[lane] = time; });
  }
  void EndRest(size_t block, uint64_t lanes, int64_t time) {
    ForEachLaneOf(block, lanes, [&](size_t lane) {
      int64_t& left = step_.left_[lane];
      left += time - step_.rests_since_[lane];
      length_ = std::max(length_, left);
    });
  }
  bool Start(size_t bundle, uint64_t lanes, int64_t time) {
    step_.started_.push_back({time, lanes, static_cast<int32_t>(bundle)});
    const Bundle& one = bundles_[bundle];
    __builtin_prefetch(one.edges);
    length_ = std::max(length_, time + one.duration);
    if (one.is_of_kernels()) return length_ <= cutoff_;
    for (int32_t r : one.held()) {
      int64_t& left = step_.left_[static_cast<size_t>(r)];
      length_ = std::max(length_, time + left);
      left -= one.duration;
    }
    return length_ <= cutoff_;
  }

 private:
  static constexpr std::ptrdiff_t kFewEdges = 16;

  template <class Visit>
  static void ForEachLaneOf(size_t block, uint64_t lanes, Visit&& visit) {
    const size_t first = block * static_cast<size_t>(kLanesOfBlock);
    ForEachLane(lanes, [&](int lane) { visit(first + static_cast<size_t>(lane)); });
  }
  // Lanes of a bundle whose kernels are ready, now that each waits for one task less.
  uint64_t ReadyOf(size_t bundle, uint64_t lanes) {
    auto& [waits, simulation] = step_.lanes_pending_[bundle];
    if (simulation != step_.simulation_) {
      waits = step_.step_.lane_waits()[bundle];
      simulation = step_.simulation_;
      if (waits.high >= 0) {
        const auto high = static_cast<size_t>(waits.high);
        step_.high_pending_[high] = step_.step_.high_waits()[high];
      }
    }
    const auto [zero, borrowed] = waits.counts.Subtract(lanes);
    if (waits.high < 0 || (zero | borrowed) == 0) return zero;
    return zero & ~SubtractHigh(step_.high_pending_[static_cast<size_t>(waits.high)], borrowed);
  }
  // Subtracts 1 of the high bits of these lanes' counts. Returns the lanes that still have some.
  static uint64_t SubtractHigh(BundledStep::HighLaneCounts& high, uint64_t lanes) {
    uint64_t more = 0;
    for (uint64_t& plane : high) {
      const uint64_t borrowed = lanes & ~plane;
      plane ^= lanes;
      lanes = borrowed;
      more |= plane;
    }
    return more;
  }

  PlacedStep& step_;
  const std::vector<Bundle>& bundles_;
  const int64_t cutoff_;
  const int number_bits_;
  const uint64_t number_mask_;
  int64_t length_ = 0;
};

Nanos PlacedStep::StartWork(std::span<const JoinedTasks> joined) {
  CHECK(CanSimulate(joined));
  left_.assign(step_.work().begin(), step_.work().end());
  rests_since_.assign(lanes_, 0);
  most_ = step_.total();
  JoinWork(joined);
  return Nanos(left_.empty() ? 0 : *std::max_element(left_.begin(), left_.end()));
}

Nanos PlacedStep::Run(Nanos cutoff, std::span<const JoinedTasks> joined) {
  Start(joined);
  Simulation simulation(*this, cutoff.value());
  BundleScheduler scheduler(simulation, step_.bundles().size(), list_);
  for (size_t link = 0; link < step_.links(); ++link) {
    for (const BundledStep::First& first : step_.FirstOf(link)) {
      const auto place = static_cast<size_t>(first.bundle);
      if (joined_length_[place] < 0) scheduler.Ready(place, first.lanes);
    }
  }
  for (const JoinedTasks& one : joined) {
    const auto place = static_cast<size_t>(PlaceOf(one.members[0]));
    if (pending_[place] == 0) scheduler.Ready(place, 1);
  }
  scheduler.Run();
  return Nanos(simulation.length());
}

Nanos PlacedStep::Simulate(Nanos cutoff, std::span<const JoinedTasks> joined) {
  const Nanos busiest = StartWork(joined);
  if (busiest > cutoff) return busiest;
  const Nanos length = Run(cutoff, joined);
  Part(joined);
  return length;
}

}  // namespace partita

#include "planner/search/list_placement.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "planner/search/additive_costs.h"
#include "planner/space/like_operators.h"

namespace partita {
namespace {

// Memory for times of exchanges.
constexpr Bytes kMostOfExchanges(int64_t{32} << 20);
// Allocations that are placed, of those on the way.
constexpr size_t kPlacements = 12;
// Spans of devices that a chain may go to, besides those of the chains before it.
constexpr size_t kFreeSpans = 2;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

// A split by sample over devices in a row.
struct DeviceSpan {
  int32_t first = 0, count = 0;

  friend bool operator==(DeviceSpan, DeviceSpan) = default;
  template <class H>
  friend H AbslHashValue(H h, DeviceSpan a) {
    return H::combine(std::move(h), a.first, a.count);
  }
};

class ListPlacer {
 public:
  ListPlacer(const SearchProblem& problem, const Strategy& base, Nanos most,
             const std::function<bool()>& stop)
      : problem_(problem),
        graph_(problem.space.graph()),
        base_(base),
        most_(std::min(most.value(), kNever)),
        stop_(stop),
        costs_(problem.evaluator, kMostOfExchanges),
        class_of_(ByOperator(graph_, LikeClasses(graph_))),
        kind_of_pair_(costs_.KindsOfPairs(class_of_)) {}

  std::vector<NamedStrategy> PlaceAll() {
    std::vector<NamedStrategy> placed;
    FindChains();
    if (!HasBranches() || !FindTimes()) return placed;
    FindSums();
    const std::vector<Allocation> allocations = Allocations();
    const size_t count = std::min(kPlacements, allocations.size());
    for (size_t k = 0; k < count; ++k) {
      if (stop_()) return {};
      const size_t at = count == 1 ? 0 : k * (allocations.size() - 1) / (count - 1);
      auto strategy = PlaceChains(allocations[at]);
      if (strategy.has_value()) placed.push_back({"list_placement", *std::move(strategy)});
    }
    return placed;
  }

 private:
  // Devices of each chain, as a place in counts_.
  using Allocation = std::vector<size_t>;
  // Operators in a row, of which each makes what only the next reads.
  struct Chain {
    std::vector<OpId> ops;
    std::vector<size_t> pairs;   // exchanges with chains before it
    std::vector<size_t> behind;  // chains that read what it makes
    std::vector<size_t> before;  // those that it reads
    std::vector<int64_t> time;   // by number of devices (counts_); kNever where it does not fit
  };

  void FindChains() {
    std::vector<std::vector<size_t>> makers(graph_.ops().size()), readers(graph_.ops().size());
    const auto pairs = costs_.pairs();
    for (size_t k = 0; k < pairs.size(); ++k) {
      makers[pairs[k].b.index()].push_back(k);
      readers[pairs[k].a.index()].push_back(k);
    }
    chain_of_.assign(graph_.ops().size(), 0);
    for (OpId op : graph_.anchors()) {
      const auto& from = makers[op.index()];
      const bool goes_on = from.size() == 1 && readers[pairs[from[0]].a.index()].size() == 1;
      if (goes_on) {
        chain_of_[op.index()] = chain_of_[pairs[from[0]].a.index()];
      } else {
        chain_of_[op.index()] = chains_.size();
        chains_.emplace_back();
      }
      chains_[chain_of_[op.index()]].ops.push_back(op);
    }
    ConnectChains();
  }

  void ConnectChains() {
    const auto pairs = costs_.pairs();
    for (size_t k = 0; k < pairs.size(); ++k) {
      const size_t a = chain_of_[pairs[k].a.index()], b = chain_of_[pairs[k].b.index()];
      if (a == b) continue;
      chains_[b].pairs.push_back(k);
      std::vector<size_t>& behind = chains_[a].behind;
      if (std::find(behind.begin(), behind.end(), b) != behind.end()) continue;
      behind.push_back(b);
      chains_[b].before.push_back(a);
    }
  }

  bool HasBranches() const {
    return std::any_of(chains_.begin(), chains_.end(),
                       [](const Chain& chain) { return chain.behind.size() > 1; });
  }

  ParallelConfig ConfigOf(OpId op, DeviceSpan devices) const {
    return BySample(graph_.rule(op), DeviceRange(devices.first, devices.count));
  }

  // Finds the times of chains on one device, two, and so on. False where one does not fit.
  bool FindTimes() {
    for (int count = 1; count <= problem_.space.devices(); count *= 2) counts_.push_back(count);
    absl::flat_hash_map<std::pair<int32_t, int>, int64_t> known;
    const auto time_of = [&](OpId op, int count) {
      const auto [at, is_new] = known.try_emplace({class_of_[op.index()], count}, kNever);
      if (!is_new) return at->second;
      const auto kernels = costs_.OfSampledKernels(op, ConfigOf(op, {0, count}));
      if (kernels.has_value()) at->second = std::max<int64_t>(1, kernels->sum());
      return at->second;
    };
    for (Chain& chain : chains_) {
      for (int count : counts_) {
        int64_t time = 0;
        for (OpId op : chain.ops) {
          if (stop_()) return false;
          time = std::min(kNever, time + time_of(op, count));
        }
        chain.time.push_back(time);
      }
      if (chain.time[0] >= kNever) return false;
    }
    return true;
  }

  // Finds how long the chains' gradients take to be summed over all pods, on one device of each.
  void FindSums() {
    sums_.assign(chains_.size(), 0);
    if (problem_.evaluator.options().pods == nullptr) return;
    Strategy whole = base_;
    for (OpId op : graph_.anchors()) whole.configs[op.index()] = ConfigOf(op, {0, 1});
    const auto step = problem_.evaluator.EvaluateStep(whole);
    if (!step.ok()) return;
    for (size_t t = 0; t < step->tasks.tasks().size(); ++t) {
      const Task& task = step->tasks.tasks()[t];
      if (!std::holds_alternative<CollectiveTask>(task.body)) continue;
      for (OpId maker : graph_.producers(TensorId(task.key.subject))) {
        const OpId anchor = graph_.op(maker).anchor;
        if (anchor != kNoOp) sums_[chain_of_[anchor.index()]] += step->durations[t].value();
      }
    }
  }

  // The longest paths from each chain to the end.
  std::vector<int64_t> PathsBehind(const Allocation& allocation) const {
    std::vector<int64_t> paths(chains_.size(), 0);
    for (size_t c = chains_.size(); c-- > 0;) {
      for (size_t next : chains_[c].behind) paths[c] = std::max(paths[c], paths[next]);
      paths[c] += chains_[c].time[allocation[c]];
    }
    return paths;
  }

  // The chains of a critical path, first to last. `paths`: as PathsBehind finds them.
  std::vector<size_t> CriticalPath(const std::vector<int64_t>& paths) const {
    const auto longest = std::max_element(paths.begin(), paths.end());
    std::vector<size_t> path = {static_cast<size_t>(longest - paths.begin())};
    while (!chains_[path.back()].behind.empty()) {
      const std::vector<size_t>& behind = chains_[path.back()].behind;
      path.push_back(*std::max_element(behind.begin(), behind.end(),
                                       [&](size_t a, size_t b) { return paths[a] < paths[b]; }));
    }
    return path;
  }

  // The chain of the path that twice the devices shorten most for the area that it takes more; nullopt
  // where they shorten none.
  std::optional<size_t> MostShortened(const std::vector<size_t>& path,
                                      const Allocation& allocation) const {
    std::optional<size_t> best;
    double best_gain = 0;
    for (size_t c : path) {
      const size_t at = allocation[c];
      if (at + 1 >= counts_.size()) continue;
      const int64_t time = chains_[c].time[at], then = chains_[c].time[at + 1];
      if (then >= time) continue;
      const auto area = static_cast<double>(then * counts_[at + 1] - time * counts_[at]);
      const double gain = static_cast<double>(time - then) / std::max(1.0, area);
      if (gain <= best_gain) continue;
      best = c;
      best_gain = gain;
    }
    return best;
  }

  // The allocations on the way from one device each.
  std::vector<Allocation> Allocations() const {
    std::vector<Allocation> allocations = {Allocation(chains_.size(), 0)};
    while (!stop_()) {
      const Allocation& last = allocations.back();
      const auto chain = MostShortened(CriticalPath(PathsBehind(last)), last);
      if (!chain.has_value()) break;
      allocations.push_back(last);
      ++allocations.back()[*chain];
    }
    return allocations;
  }

  // Places all chains, those with the longest path behind them first. nullopt where the last ends at
  // `most_` or later.
  std::optional<Strategy> PlaceChains(const Allocation& allocation) {
    const std::vector<int64_t> paths = PathsBehind(allocation);
    std::vector<size_t> order(chains_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    // Every time is above 0, so that makers come before readers.
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return paths[a] > paths[b]; });
    // Nothing ends before its path.
    if (paths[order[0]] >= most_) return std::nullopt;
    free_at_.assign(static_cast<size_t>(problem_.space.devices()), 0);
    summed_ = free_at_;
    spans_.assign(chains_.size(), {});
    ends_.assign(chains_.size(), 0);
    Strategy strategy = base_;
    for (size_t c : order) {
      Place(c, counts_[allocation[c]], chains_[c].time[allocation[c]]);
      if (ends_[c] >= most_) return std::nullopt;
      for (OpId op : chains_[c].ops) strategy.configs[op.index()] = ConfigOf(op, spans_[c]);
    }
    return strategy;
  }

  // Puts a chain on so many devices: where it and its sums end first.
  void Place(size_t c, int count, int64_t time) {
    std::pair<int64_t, int64_t> least = {kNever, kNever};
    for (DeviceSpan span : SpansFor(c, count)) {
      const int64_t end = EndOn(c, span, time);
      const std::pair<int64_t, int64_t> ends = {std::max(end, MostOf(summed_, span) + sums_[c]),
                                                end};
      if (ends >= least) continue;
      least = ends;
      spans_[c] = span;
    }
    ends_[c] = least.second;
    for (int32_t d = 0; d < spans_[c].count; ++d) {
      const auto device = static_cast<size_t>(spans_[c].first + d);
      free_at_[device] = ends_[c];
      summed_[device] += sums_[c];
    }
  }

  // Spans that a chain may go to: those of the chains before it, those that are free first, and those
  // with the least to sum.
  std::vector<DeviceSpan> SpansFor(size_t c, int32_t count) const {
    std::vector<DeviceSpan> spans, all;
    const int32_t devices = problem_.space.devices();
    for (size_t maker : chains_[c].before) {
      const DeviceSpan of_maker = spans_[maker];
      for (int32_t d = 0; d < of_maker.count; d += count) {
        const int32_t first = (of_maker.first + d) / count * count;
        if (first + count <= devices) spans.push_back({first, count});
      }
    }
    for (int32_t first = 0; first + count <= devices; first += count) {
      all.push_back({first, count});
    }
    for (const std::vector<int64_t>* times : {&free_at_, &summed_}) {
      std::vector<DeviceSpan> others = all;
      std::stable_sort(others.begin(), others.end(), [&](DeviceSpan a, DeviceSpan b) {
        return MostOf(*times, a) < MostOf(*times, b);
      });
      others.resize(std::min(others.size(), kFreeSpans));
      spans.insert(spans.end(), others.begin(), others.end());
    }
    return spans;
  }

  static int64_t MostOf(const std::vector<int64_t>& times, DeviceSpan devices) {
    const auto first = times.begin() + devices.first;
    return *std::max_element(first, first + devices.count);
  }

  int64_t EndOn(size_t c, DeviceSpan devices, int64_t time) {
    int64_t begin = MostOf(free_at_, devices);
    for (size_t pair : chains_[c].pairs) {
      const size_t maker = chain_of_[costs_.pairs()[pair].a.index()];
      begin = std::max(begin, ends_[maker] + Between(pair, spans_[maker], devices));
    }
    return begin + time;
  }

  int64_t Between(size_t pair, DeviceSpan a, DeviceSpan b) {
    if (a == b) return 0;
    const auto [at, is_new] = between_.try_emplace({kind_of_pair_[pair], a, b}, 0);
    if (is_new) {
      const AdditiveCosts::Pair& both = costs_.pairs()[pair];
      const auto from = costs_.Configure(both.a, ConfigOf(both.a, a));
      const auto to = costs_.Configure(both.b, ConfigOf(both.b, b));
      at->second = from.has_value() && to.has_value()
                       ? costs_.Between(both, *from, *to, ExchangePricing::kByBytes).time.sum()
                       : kNever;
    }
    return at->second;
  }

  const SearchProblem& problem_;
  const Graph& graph_;
  const Strategy& base_;
  const int64_t most_;  // nanoseconds, at most kNever
  const std::function<bool()>& stop_;
  AdditiveCosts costs_;
  const std::vector<int32_t> class_of_;      // indexed by OpId: of like anchors
  const std::vector<int32_t> kind_of_pair_;  // by place in AdditiveCosts::pairs()
  std::vector<Chain> chains_;                // in topological order
  std::vector<size_t> chain_of_;             // indexed by OpId of an anchor
  std::vector<int> counts_;                  // of devices: 1, 2, 4, ...
  std::vector<int64_t> sums_;                // indexed by chain
  absl::flat_hash_map<std::tuple<int32_t, DeviceSpan, DeviceSpan>, int64_t> between_;
  // Of the placement at hand.
  std::vector<int64_t> free_at_, summed_;  // indexed by device
  std::vector<DeviceSpan> spans_;          // indexed by chain
  std::vector<int64_t> ends_;              // indexed by chain
};

}  // namespace

std::vector<NamedStrategy> ListPlacements(const SearchProblem& problem, const Strategy& base,
                                          Nanos most, const std::function<bool()>& stop) {
  return ListPlacer(problem, base, most, stop).PlaceAll();
}

}  // namespace partita

#include <algorithm>
#include <utility>

#include "planner/expert/hypergraph/bisection.h"
#include "planner/expert/hypergraph/gain_buckets.h"

namespace partita {
namespace {

constexpr int kRefinementPasses = 8;

int64_t ExcessOf(const std::array<int64_t, 2>& weights, const SideLimits& limits) {
  return std::max<int64_t>(0, weights[0] - limits[0]) +
         std::max<int64_t>(0, weights[1] - limits[1]);
}

// The largest change of the cut that a move can make.
int64_t LargestGain(const Hypergraph& h) {
  int64_t most = 0;
  for (int32_t v = 0; v < h.vertices(); ++v) {
    int64_t sum = 0;
    for (int32_t net : h.nets_of(v)) sum += h.cost(net);
    most = std::max(most, sum);
  }
  return most;
}

std::array<GainBuckets, 2> EmptyBuckets(const Hypergraph& h) {
  const GainBuckets empty(h.vertices(), LargestGain(h));
  return {empty, empty};
}

class Refinement {
 public:
  Refinement(const Hypergraph& hypergraph, Bisection start, const SideLimits& limits)
      : h_(hypergraph),
        limits_(limits),
        state_(std::move(start)),
        gains_(static_cast<size_t>(h_.vertices())),
        pins_(static_cast<size_t>(h_.nets())),
        buckets_(EmptyBuckets(h_)) {
    for (int32_t v = 0; v < h_.vertices(); ++v) weights_[Side(v)] += h_.weight(v);
    for (int32_t net = 0; net < h_.nets(); ++net) {
      for (int32_t pin : h_.pins(net)) ++Pins(net)[Side(pin)];
    }
  }

  Bisection Run() && {
    for (int pass = 0; pass < kRefinementPasses && Pass(); ++pass) {
    }
    return std::move(state_);
  }

 private:
  size_t Side(int32_t v) const { return static_cast<size_t>(state_.side[static_cast<size_t>(v)]); }
  int64_t& Gain(int32_t v) { return gains_[static_cast<size_t>(v)]; }
  std::array<int32_t, 2>& Pins(int32_t net) { return pins_[static_cast<size_t>(net)]; }

  // Whether it got better. Moves behind the best state are taken back.
  bool Pass() {
    FillBuckets();
    std::vector<int32_t> moves;
    size_t kept = 0;
    const std::pair<int64_t, int64_t> before(state_.excess, state_.cut);
    std::pair<int64_t, int64_t> best = before;
    for (int32_t v = Next(); v >= 0; v = Next()) {
      Move(v);
      moves.push_back(v);
      const std::pair<int64_t, int64_t> now(state_.excess, state_.cut);
      if (now >= best) continue;
      best = now;
      kept = moves.size();
    }
    while (moves.size() > kept) {
      Move(moves.back());
      moves.pop_back();
    }
    return best < before;
  }

  void FillBuckets() {
    for (GainBuckets& buckets : buckets_) buckets.Clear();
    for (int32_t v = 0; v < h_.vertices(); ++v) {
      Gain(v) = 0;
      for (int32_t net : h_.nets_of(v)) {
        if (Pins(net)[Side(v)] == 1) Gain(v) += h_.cost(net);
        if (Pins(net)[1 - Side(v)] == 0) Gain(v) -= h_.cost(net);
      }
      buckets_[Side(v)].Insert(v, Gain(v));
    }
  }

  // The vertex to move, out of the buckets; those that cannot move now are locked. -1: no more.
  int32_t Next() {
    for (size_t from : {size_t{0}, size_t{1}}) {
      while (!buckets_[from].empty() && !MayMove(buckets_[from].Best())) {
        buckets_[from].Remove(buckets_[from].Best());
      }
    }
    if (buckets_[0].empty() && buckets_[1].empty()) return -1;
    size_t from = buckets_[0].empty() ? 1 : 0;
    if (!buckets_[0].empty() && !buckets_[1].empty()) {
      const int64_t first = Gain(buckets_[0].Best()), second = Gain(buckets_[1].Best());
      // Of equal gains the side that is fuller, by its limit.
      const bool fuller = weights_[1] - limits_[1] > weights_[0] - limits_[0];
      from = second > first || (second == first && fuller) ? 1 : 0;
    }
    const int32_t v = buckets_[from].Best();
    buckets_[from].Remove(v);
    return v;
  }

  bool MayMove(int32_t v) const {
    std::array<int64_t, 2> after = weights_;
    after[Side(v)] -= h_.weight(v);
    after[1 - Side(v)] += h_.weight(v);
    return after[1 - Side(v)] <= limits_[1 - Side(v)] || ExcessOf(after, limits_) < state_.excess;
  }

  // The gain of a vertex that has not moved yet.
  void Change(int32_t v, int64_t difference) {
    Gain(v) += difference;
    GainBuckets& buckets = buckets_[Side(v)];
    if (!buckets.Contains(v)) return;
    buckets.Remove(v);
    buckets.Insert(v, Gain(v));
  }
  void ChangeAll(int32_t net, int64_t difference) {
    for (int32_t pin : h_.pins(net)) Change(pin, difference);
  }
  void ChangeOnly(int32_t net, size_t side, int64_t difference) {
    for (int32_t pin : h_.pins(net)) {
      if (Side(pin) == side) return Change(pin, difference);
    }
  }

  void Move(int32_t v) {
    const size_t from = Side(v), to = 1 - from;
    for (int32_t net : h_.nets_of(v)) {
      const int64_t cost = h_.cost(net);
      std::array<int32_t, 2>& pins = Pins(net);
      if (pins[to] == 0) ChangeAll(net, cost);
      if (pins[to] == 1) ChangeOnly(net, to, -cost);
      state_.cut += (pins[to] == 0 ? cost : 0) - (pins[from] == 1 ? cost : 0);
      --pins[from];
      ++pins[to];
    }
    state_.side[static_cast<size_t>(v)] = static_cast<int8_t>(to);
    for (int32_t net : h_.nets_of(v)) {
      if (Pins(net)[from] == 0) ChangeAll(net, -h_.cost(net));
      if (Pins(net)[from] == 1) ChangeOnly(net, from, h_.cost(net));
    }
    weights_[from] -= h_.weight(v);
    weights_[to] += h_.weight(v);
    state_.excess = ExcessOf(weights_, limits_);
  }

  const Hypergraph& h_;
  const SideLimits limits_;
  Bisection state_;
  std::array<int64_t, 2> weights_ = {0, 0};
  std::vector<int64_t> gains_;                // indexed by vertex
  std::vector<std::array<int32_t, 2>> pins_;  // on each side, indexed by net
  std::array<GainBuckets, 2> buckets_;        // of the vertices on each side that may still move
};

}  // namespace

bool IsBetter(const Bisection& a, const Bisection& b) {
  return std::pair(a.excess, a.cut) < std::pair(b.excess, b.cut);
}

Bisection Measured(const Hypergraph& hypergraph, std::vector<int8_t> side,
                   const SideLimits& limits) {
  Bisection bisection{.side = std::move(side)};
  std::array<int64_t, 2> weights = {0, 0};
  for (int32_t v = 0; v < hypergraph.vertices(); ++v) {
    weights[static_cast<size_t>(bisection.side[static_cast<size_t>(v)])] += hypergraph.weight(v);
  }
  bisection.excess = ExcessOf(weights, limits);
  for (int32_t net = 0; net < hypergraph.nets(); ++net) {
    const auto pins = hypergraph.pins(net);
    const int8_t first = bisection.side[static_cast<size_t>(pins[0])];
    const bool cut = std::any_of(pins.begin(), pins.end(), [&](int32_t pin) {
      return bisection.side[static_cast<size_t>(pin)] != first;
    });
    if (cut) bisection.cut += hypergraph.cost(net);
  }
  return bisection;
}

Bisection Refine(const Hypergraph& hypergraph, Bisection start, const SideLimits& limits) {
  if (hypergraph.vertices() == 0) return start;
  return Refinement(hypergraph, std::move(start), limits).Run();
}

}  // namespace partita

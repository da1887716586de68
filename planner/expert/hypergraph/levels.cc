// Levels of a bisection. Down: each vertex is matched with the one to which it is joined by most cost,
// a net of p pins counting cost / (p - 1), and pairs become vertices of the next hypergraph
// (Catalyurek, Aykanat 1999; Karypis et al. 1997). Up: the bisection of the pairs is one of the
// vertices, which is refined. Then the same again with pairs that lie on one side only, so that the
// bisection found is one of every level, and is improved there (V-cycles, Karypis et al. 1997).

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "planner/expert/hypergraph/bisection.h"

namespace partita {
namespace {

constexpr int32_t kFewVertices = 80;  // levels end here
constexpr int kStarts = 12;           // bisections of the last level that are refined
constexpr int kMostCycles = 4;        // after the first, while they improve
// A pair weighs at most this part of all, so that the last level can be balanced.
constexpr int64_t kSmallestPart = 24;

struct Level {
  Hypergraph hypergraph;
  std::vector<int32_t> vertex;  // in it, of each vertex of the level before
};

std::vector<int32_t> ShuffledVertices(int32_t count, std::mt19937_64& random) {
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random() % k]);
  return order;
}

// Pairs vertices along nets, of one side only where `side` is not empty. Each is asked for once.
class Matching {
 public:
  Matching(const Hypergraph& hypergraph, std::span<const int8_t> side)
      : h_(hypergraph),
        mate_(static_cast<size_t>(h_.vertices()), -1),
        free_on_(side.begin(), side.end()),
        score_(static_cast<size_t>(h_.vertices()), 0) {
    free_on_.resize(mate_.size(), 0);
  }

  std::vector<int32_t> Run(std::mt19937_64& random) && {
    for (int32_t v : ShuffledVertices(h_.vertices(), random)) {
      if (Mate(v) >= 0) continue;
      const int32_t mate = BestFor(v);
      Mate(v) = mate;
      Mate(mate) = v;
      FreeOn(mate) = kMatched;
    }
    return std::move(mate_);
  }

 private:
  int32_t& Mate(int32_t v) { return mate_[static_cast<size_t>(v)]; }
  double& Score(int32_t v) { return score_[static_cast<size_t>(v)]; }
  int8_t& FreeOn(int32_t v) { return free_on_[static_cast<size_t>(v)]; }

  // The vertex itself if none is left that it may be joined with. It counts as matched from here on.
  int32_t BestFor(int32_t v) {
    touched_.clear();
    const int8_t side = std::exchange(FreeOn(v), kMatched);
    for (int32_t net : h_.nets_of(v)) {
      const auto pins = h_.pins(net);
      const double share = static_cast<double>(h_.cost(net)) / static_cast<double>(pins.size() - 1);
      for (int32_t pin : pins) {
        if (FreeOn(pin) != side) continue;
        if (Score(pin) == 0) touched_.push_back(pin);
        Score(pin) += share;
      }
    }
    int32_t best = v;
    double most = 0;
    for (int32_t u : touched_) {
      const bool fits = h_.weight(u) + h_.weight(v) <= h_.total_weight() / kSmallestPart;
      if (fits && (Score(u) > most || (Score(u) == most && u < best))) {
        best = u;
        most = Score(u);
      }
      Score(u) = 0;
    }
    return best;
  }

  static constexpr int8_t kMatched = -1;

  const Hypergraph& h_;
  std::vector<int32_t> mate_;    // indexed by vertex; -1: not asked yet
  std::vector<int8_t> free_on_;  // indexed by vertex: its side, or kMatched
  std::vector<double> score_;    // indexed by vertex; 0 between calls
  std::vector<int32_t> touched_;
};

// The next level; nullopt where few vertices find a mate. `side`: as of Matching.
std::optional<Level> Coarser(const Hypergraph& h, std::span<const int8_t> side,
                             std::mt19937_64& random) {
  const std::vector<int32_t> mate = Matching(h, side).Run(random);
  std::vector<int32_t> vertex(mate.size(), -1);
  std::vector<int64_t> weights;
  for (size_t v = 0; v < mate.size(); ++v) {
    const auto first = static_cast<size_t>(std::min(static_cast<int32_t>(v), mate[v]));
    if (vertex[first] < 0) {
      vertex[first] = static_cast<int32_t>(weights.size());
      weights.push_back(0);
    }
    vertex[v] = vertex[first];
    weights[static_cast<size_t>(vertex[v])] += h.weight(static_cast<int32_t>(v));
  }
  if (weights.size() * 10 > mate.size() * 9) return std::nullopt;
  std::vector<Hypergraph::Net> nets;
  std::vector<int32_t> met_in(weights.size(), -1);  // indexed by vertex of the next level: a net
  for (int32_t net = 0; net < h.nets(); ++net) {
    Hypergraph::Net joined{h.cost(net), {}};
    joined.pins.reserve(h.pins(net).size());
    for (int32_t pin : h.pins(net)) {
      const int32_t next = vertex[static_cast<size_t>(pin)];
      if (std::exchange(met_in[static_cast<size_t>(next)], net) != net) joined.pins.push_back(next);
    }
    nets.push_back(std::move(joined));
  }
  return Level{Hypergraph(std::move(weights), std::move(nets)), std::move(vertex)};
}

// The first vertices of an order on side 0, up to its share of the weight.
std::vector<int8_t> FillInOrder(const Hypergraph& h, const std::vector<int32_t>& order,
                                const SideLimits& limits) {
  const double share = static_cast<double>(limits[0]) /
                       static_cast<double>(std::max<int64_t>(1, limits[0] + limits[1]));
  const auto wanted = static_cast<int64_t>(share * static_cast<double>(h.total_weight()));
  std::vector<int8_t> side(order.size(), 1);
  int64_t filled = 0;
  for (int32_t v : order) {
    if (filled + h.weight(v) / 2 >= wanted) break;
    filled += h.weight(v);
    side[static_cast<size_t>(v)] = 0;
  }
  return side;
}

// Half of the starts fill side 0 in random orders, the others in the order of the vertices' numbers
// from different ones on: of layers that are numbered front to back these are cut in two places.
Bisection BestOfStarts(const Hypergraph& h, const SideLimits& limits, std::mt19937_64& random) {
  Bisection best;
  for (int start = 0; start < kStarts; ++start) {
    std::vector<int32_t> order = ShuffledVertices(h.vertices(), random);
    if (start % 2 == 0) {
      std::sort(order.begin(), order.end());
      const auto first = static_cast<int64_t>(order.size()) * start / kStarts;
      std::rotate(order.begin(), order.begin() + first, order.end());
    }
    Bisection other = Refine(h, Measured(h, FillInOrder(h, order, limits), limits), limits);
    if (start == 0 || IsBetter(other, best)) best = std::move(other);
  }
  return best;
}

// Down and up once. A given bisection, which may be empty, is kept on the way down, and only
// improved.
Bisection RunCycle(const Hypergraph& hypergraph, const Bisection& given, const SideLimits& limits,
                   std::mt19937_64& random) {
  std::vector<Level> levels;
  std::vector<int8_t> given_side = given.side;  // of the last level
  const auto last = [&]() -> const Hypergraph& {
    return levels.empty() ? hypergraph : levels.back().hypergraph;
  };
  while (last().vertices() > kFewVertices) {
    auto next = Coarser(last(), given_side, random);
    if (!next.has_value()) break;
    levels.push_back(*std::move(next));
    if (given_side.empty()) continue;
    std::vector<int8_t> side(static_cast<size_t>(last().vertices()));
    for (size_t v = 0; v < given_side.size(); ++v) {
      side[static_cast<size_t>(levels.back().vertex[v])] = given_side[v];
    }
    given_side = std::move(side);
  }
  Bisection found = given_side.empty()
                        ? BestOfStarts(last(), limits, random)
                        : Refine(last(), Measured(last(), std::move(given_side), limits), limits);
  while (!levels.empty()) {
    const std::vector<int32_t> vertex = std::move(levels.back().vertex);
    levels.pop_back();
    std::vector<int8_t> side(vertex.size());
    for (size_t v = 0; v < vertex.size(); ++v) side[v] = found.side[static_cast<size_t>(vertex[v])];
    found = Refine(last(), Measured(last(), std::move(side), limits), limits);
  }
  return found;
}

}  // namespace

Bisection BisectByLevels(const Hypergraph& hypergraph, const SideLimits& limits,
                         std::mt19937_64& random) {
  return ImproveByLevels(hypergraph, RunCycle(hypergraph, {}, limits, random), limits, random);
}

Bisection ImproveByLevels(const Hypergraph& hypergraph, Bisection bisection,
                          const SideLimits& limits, std::mt19937_64& random) {
  for (int cycle = 0; cycle < kMostCycles; ++cycle) {
    Bisection other = RunCycle(hypergraph, bisection, limits, random);
    if (!IsBetter(other, bisection)) break;
    bisection = std::move(other);
  }
  return bisection;
}

}  // namespace partita

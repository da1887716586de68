// Recursive bisection: a net that a bisection cuts goes on with its pins on each side, so that the
// costs of all cuts add up to connectivity minus one. A bisection of weight W for k parts may exceed
// its share by (k * limit / W - 1) / depth, the depth being that of the bisections still to come:
// whatever it takes, the limit can be kept below it (as in KaHyPar, Schlag et al. 2016).

#include "planner/expert/hypergraph/partitioner.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "planner/expert/hypergraph/bisection.h"

namespace partita {
namespace {

constexpr int kMovePasses = 6;
// Rounds of pairs; up to the second number as long as a part is too heavy.
constexpr int kPairRounds = 3, kMostPairRounds = 12;
// Parts up to which all pairs are looked at, and vertices up to which they are in every run: for
// more that takes most of the time, and only the best run goes on.
constexpr int32_t kMostPairedParts = 16, kFewForPairs = 2048;

struct SubProblem {
  Hypergraph hypergraph;
  std::vector<int32_t> vertex;  // of the whole hypergraph
  int32_t first = 0, parts = 1;
};

// Makes hypergraphs of some vertices of one, with its nets' pins there only.
class Restriction {
 public:
  // The hypergraph outlives this.
  explicit Restriction(const Hypergraph& hypergraph)
      : h_(hypergraph),
        number_(static_cast<size_t>(h_.vertices()), -1),
        met_(static_cast<size_t>(h_.nets()), false) {}

  Hypergraph To(const std::vector<int32_t>& vertices) {
    std::vector<int64_t> weights;
    for (int32_t v : vertices) {
      Number(v) = static_cast<int32_t>(weights.size());
      weights.push_back(h_.weight(v));
    }
    std::vector<Hypergraph::Net> nets;
    std::vector<int32_t> met;
    for (int32_t v : vertices) {
      for (int32_t net : h_.nets_of(v)) {
        if (met_[static_cast<size_t>(net)]) continue;
        met_[static_cast<size_t>(net)] = true;
        met.push_back(net);
        Hypergraph::Net own{h_.cost(net), {}};
        for (int32_t pin : h_.pins(net)) {
          if (Number(pin) >= 0) own.pins.push_back(Number(pin));
        }
        if (own.pins.size() > 1) nets.push_back(std::move(own));
      }
    }
    for (int32_t v : vertices) Number(v) = -1;
    for (int32_t net : met) met_[static_cast<size_t>(net)] = false;
    return Hypergraph(std::move(weights), std::move(nets));
  }

 private:
  int32_t& Number(int32_t v) { return number_[static_cast<size_t>(v)]; }

  const Hypergraph& h_;
  std::vector<int32_t> number_;  // indexed by vertex; -1 between calls
  std::vector<bool> met_;        // indexed by net; false between calls
};

SubProblem SideOf(const SubProblem& problem, const Bisection& bisection, int8_t side) {
  std::vector<int32_t> own, vertex;
  for (int32_t v = 0; v < problem.hypergraph.vertices(); ++v) {
    if (bisection.side[static_cast<size_t>(v)] != side) continue;
    own.push_back(v);
    vertex.push_back(problem.vertex[static_cast<size_t>(v)]);
  }
  const int32_t lower = (problem.parts + 1) / 2;
  return {Restriction(problem.hypergraph).To(own), std::move(vertex),
          problem.first + (side == 0 ? 0 : lower), side == 0 ? lower : problem.parts - lower};
}

SideLimits LimitsOf(const SubProblem& problem, int64_t part_limit) {
  const int64_t weight = problem.hypergraph.total_weight();
  const int64_t room = std::max<int64_t>(0, part_limit * problem.parts - weight);
  int depth = 0;
  while ((int64_t{1} << depth) < problem.parts) ++depth;
  const int64_t wanted = weight + room / depth;
  const int64_t lower = (problem.parts + 1) / 2;
  return {std::max(wanted * lower / problem.parts, int64_t{1}),
          std::max(wanted * (problem.parts - lower) / problem.parts, int64_t{1})};
}

// Moves single vertices to where they cut less, or where there is room.
class Moves {
 public:
  Moves(const Hypergraph& hypergraph, std::vector<int32_t> part, int32_t parts, int64_t limit)
      : h_(hypergraph),
        part_(std::move(part)),
        parts_(parts),
        limit_(limit),
        weights_(static_cast<size_t>(parts), 0),
        pins_(static_cast<size_t>(h_.nets()) * static_cast<size_t>(parts), 0) {
    for (int32_t v = 0; v < h_.vertices(); ++v) {
      Weight(Part(v)) += h_.weight(v);
      for (int32_t net : h_.nets_of(v)) ++Pins(net, Part(v));
    }
  }

  std::vector<int32_t> Run() && {
    for (int pass = 0; pass < kMovePasses; ++pass) {
      bool moved = false;
      for (int32_t v = 0; v < h_.vertices(); ++v) moved |= MoveIfBetter(v);
      if (!moved) break;
    }
    return std::move(part_);
  }

 private:
  int32_t& Part(int32_t v) { return part_[static_cast<size_t>(v)]; }
  int64_t& Weight(int32_t part) { return weights_[static_cast<size_t>(part)]; }
  int32_t& Pins(int32_t net, int32_t part) {
    return pins_[static_cast<size_t>(net) * static_cast<size_t>(parts_) +
                 static_cast<size_t>(part)];
  }

  bool MoveIfBetter(int32_t v) {
    const int32_t from = Part(v);
    const bool must = Weight(from) > limit_ && h_.weight(v) > 0;
    gain_.assign(static_cast<size_t>(parts_), 0);
    bool inside = true;  // all its nets lie in its part: there is nothing to gain
    for (int32_t net : h_.nets_of(v)) {
      inside &= Pins(net, from) == static_cast<int32_t>(h_.pins(net).size());
      const int64_t leaves = Pins(net, from) == 1 ? h_.cost(net) : 0;
      for (int32_t to = 0; to < parts_; ++to) {
        gain_[static_cast<size_t>(to)] += leaves - (Pins(net, to) == 0 ? h_.cost(net) : 0);
      }
    }
    if (inside && !must) return false;
    int32_t best = -1;
    for (int32_t to = 0; to < parts_; ++to) {
      if (to == from || Weight(to) + h_.weight(v) > limit_) continue;
      const int64_t gain = gain_[static_cast<size_t>(to)];
      if (!must && gain <= 0) continue;
      if (best < 0 || gain > gain_[static_cast<size_t>(best)]) best = to;
    }
    if (best < 0) return false;
    for (int32_t net : h_.nets_of(v)) {
      --Pins(net, from);
      ++Pins(net, best);
    }
    Weight(from) -= h_.weight(v);
    Weight(best) += h_.weight(v);
    Part(v) = best;
    return true;
  }

  const Hypergraph& h_;
  std::vector<int32_t> part_;
  const int32_t parts_;
  const int64_t limit_;
  std::vector<int64_t> weights_;  // indexed by part
  std::vector<int32_t> pins_;     // of each net, in each part
  std::vector<int64_t> gain_;     // of one vertex, by part
};

// Bisects pairs of parts anew from what they are, until none is improved: a pair is looked at again
// when one of its parts has changed.
class PairedParts {
 public:
  PairedParts(const Hypergraph& hypergraph, int32_t parts, int64_t limit,
              std::vector<int32_t>& part)
      : h_(hypergraph),
        parts_(parts),
        limits_{limit, limit},
        part_(part),
        vertices_(static_cast<size_t>(parts)),
        restriction_(h_) {
    for (int32_t v = 0; v < h_.vertices(); ++v) VerticesOf(Part(v)).push_back(v);
  }

  void Improve(std::mt19937_64& random) {
    std::vector<int> changed(static_cast<size_t>(parts_), 0);  // the round in which parts changed
    for (int round = 0; round < kPairRounds || (round < kMostPairRounds && IsTooHeavy()); ++round) {
      bool improved = false;
      for (int32_t a = 0; a < parts_; ++a) {
        for (int32_t b = a + 1; b < parts_; ++b) {
          int& of_a = changed[static_cast<size_t>(a)];
          int& of_b = changed[static_cast<size_t>(b)];
          if (std::max(of_a, of_b) + 1 < round || !ImprovePair(a, b, random)) continue;
          of_a = of_b = round;
          improved = true;
        }
      }
      if (!improved) return;
    }
  }

 private:
  int32_t& Part(int32_t v) { return part_[static_cast<size_t>(v)]; }
  std::vector<int32_t>& VerticesOf(int32_t part) { return vertices_[static_cast<size_t>(part)]; }

  bool IsTooHeavy() const { return HeaviestPart(h_, part_, parts_) > limits_[0]; }

  bool ImprovePair(int32_t a, int32_t b, std::mt19937_64& random) {
    FindVertices(a, b);
    // Connectivity minus one changes by as much as this one's cut does.
    const Hypergraph pair = restriction_.To(pair_);
    std::vector<int8_t> side;
    for (int32_t v : pair_) side.push_back(Part(v) == a ? int8_t{0} : int8_t{1});
    const Bisection before = Measured(pair, std::move(side), limits_);
    if (before.cut == 0 && before.excess == 0) return false;
    // Single moves may not lead out of what is too heavy.
    const Bisection after = before.excess > 0 ? BisectByLevels(pair, limits_, random)
                                              : ImproveByLevels(pair, before, limits_, random);
    if (!IsBetter(after, before)) return false;
    VerticesOf(a).clear();
    VerticesOf(b).clear();
    for (size_t k = 0; k < pair_.size(); ++k) {
      Part(pair_[k]) = after.side[k] == 0 ? a : b;
      VerticesOf(Part(pair_[k])).push_back(pair_[k]);
    }
    return true;
  }

  void FindVertices(int32_t a, int32_t b) {
    pair_.clear();
    std::merge(VerticesOf(a).begin(), VerticesOf(a).end(), VerticesOf(b).begin(),
               VerticesOf(b).end(), std::back_inserter(pair_));
  }

  const Hypergraph& h_;
  const int32_t parts_;
  const SideLimits limits_;
  std::vector<int32_t>& part_;
  std::vector<std::vector<int32_t>> vertices_;  // indexed by part; ascending
  Restriction restriction_;
  std::vector<int32_t> pair_;  // vertices of the pair at hand
};

// A partition, those first that keep to the limit and cut least.
struct Judged {
  int64_t excess = 0, cut = 0;
  std::vector<int32_t> part;
  friend bool operator<(const Judged& a, const Judged& b) {
    return std::tie(a.excess, a.cut) < std::tie(b.excess, b.cut);
  }
};

std::vector<int32_t> BisectAll(const Hypergraph& hypergraph, const PartitionerOptions& options,
                               int64_t limit, std::mt19937_64& random) {
  std::vector<int32_t> part(static_cast<size_t>(hypergraph.vertices()), 0);
  std::vector<int32_t> all(part.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<SubProblem> left;
  left.push_back({hypergraph, std::move(all), 0, options.parts});
  while (!left.empty()) {
    const SubProblem problem = std::move(left.back());
    left.pop_back();
    if (problem.parts == 1 || problem.vertex.empty()) {
      for (int32_t v : problem.vertex) part[static_cast<size_t>(v)] = problem.first;
      continue;
    }
    const Bisection bisection =
        BisectByLevels(problem.hypergraph, LimitsOf(problem, limit), random);
    for (int8_t side : {0, 1}) left.push_back(SideOf(problem, bisection, side));
  }
  return Moves(hypergraph, std::move(part), options.parts, limit).Run();
}

}  // namespace

int64_t PartLimit(const Hypergraph& hypergraph, const PartitionerOptions& options) {
  const double share =
      static_cast<double>(hypergraph.total_weight()) / static_cast<double>(options.parts);
  return static_cast<int64_t>((1 + options.imbalance) * share);
}

std::vector<int32_t> PartitionHypergraph(const Hypergraph& hypergraph,
                                         const PartitionerOptions& options) {
  const int64_t limit = PartLimit(hypergraph, options);
  std::mt19937_64 random(options.seed);
  const auto judged = [&](std::vector<int32_t> part) {
    const int64_t excess = HeaviestPart(hypergraph, part, options.parts) - limit;
    const int64_t cut = ConnectivityMinusOne(hypergraph, part);
    return Judged{std::max<int64_t>(0, excess), cut, std::move(part)};
  };
  const auto improve_pairs = [&](Judged& one) {
    if (options.parts < 3 || options.parts > kMostPairedParts) return;
    PairedParts(hypergraph, options.parts, limit, one.part).Improve(random);
    one = judged(std::move(one.part));
  };
  const bool are_few = hypergraph.vertices() <= kFewForPairs;
  std::optional<Judged> best;
  for (int run = 0; run < options.runs; ++run) {
    Judged one = judged(BisectAll(hypergraph, options, limit, random));
    if (are_few) improve_pairs(one);
    if (!best.has_value() || one < *best) best = std::move(one);
  }
  if (!best.has_value()) return {};
  if (!are_few) improve_pairs(*best);
  return std::move(best->part);
}

}  // namespace partita

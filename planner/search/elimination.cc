#include "planner/search/elimination.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace partita {
namespace {

using CostTable = std::vector<int64_t>;

// What is left of a problem while nodes are eliminated.
class Eliminator {
 public:
  explicit Eliminator(const ChoiceProblem& problem)
      : cost_(problem.nodes), edges_(problem.nodes.size()) {
    for (size_t n = 0; n < cost_.size(); ++n) left_.push_back(static_cast<int32_t>(n));
    chosen_.resize(cost_.size(), 0);
    for (const ChoiceProblem::Edge& edge : problem.edges) Join(edge.a, edge.b, edge.cost);
  }

  Choices Run(int64_t branches) {
    Choices choices;
    Reduce();
    while (!left_.empty()) {
      const int32_t node = MostJoined();
      if (static_cast<int64_t>(cost_[Index(node)].size()) <= branches) {
        TryEach(node, branches, choices.exact);
        break;
      }
      choices.exact = false;
      Fix(node, Nearest(node));
      Reduce();
    }
    while (!eliminated_.empty()) {
      const Eliminated& last = eliminated_.back();
      size_t place = 0;
      for (int32_t other : last.others) {
        place = place * cost_[Index(other)].size() + Index(chosen_[Index(other)]);
      }
      chosen_[Index(last.node)] = last.best[place];
      eliminated_.pop_back();
    }
    choices.candidate = chosen_;
    choices.cost = total_;
    return choices;
  }

 private:
  // A node that is gone: its best candidate by those of its neighbours, the first leading.
  struct Eliminated {
    int32_t node;
    std::vector<int32_t> others;
    std::vector<int32_t> best;
  };

  static size_t Index(int32_t node) { return static_cast<size_t>(node); }

  // Adds an edge, or its costs to the one there is.
  void Join(int32_t a, int32_t b, const CostTable& cost) {
    const size_t rows = cost_[Index(a)].size(), columns = cost_[Index(b)].size();
    CostTable& forth = edges_[Index(a)].try_emplace(b, rows * columns, 0).first->second;
    CostTable& back = edges_[Index(b)].try_emplace(a, rows * columns, 0).first->second;
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        forth[i * columns + j] += cost[i * columns + j];
        back[j * rows + i] += cost[i * columns + j];
      }
    }
  }

  void Remove(int32_t node) {
    for (const auto& [other, cost] : edges_[Index(node)]) edges_[Index(other)].erase(node);
    edges_[Index(node)].clear();
    left_.erase(std::find(left_.begin(), left_.end(), node));
  }

  void Reduce() {
    for (bool changed = true; changed;) {
      changed = false;
      for (int32_t node : std::vector<int32_t>(left_)) {
        if (edges_[Index(node)].size() > 2) continue;
        Eliminate(node);
        changed = true;
      }
    }
  }

  // Of a node with at most two neighbours.
  void Eliminate(int32_t node) {
    const CostTable& own = cost_[Index(node)];
    const CostTable none(own.size(), 0);  // of a neighbour with one candidate
    Eliminated gone{node, {}, {}};
    const CostTable* tables[] = {&none, &none};  // of the first and the last
    for (const auto& [other, cost] : edges_[Index(node)]) {
      gone.others.push_back(other);
      tables[0] = std::exchange(tables[1], &cost);
    }
    const CostTable least = LeastOf(own, *tables[0], *tables[1], gone.best);
    Remove(node);
    if (gone.others.empty()) total_ += least[0];
    if (gone.others.size() == 1) {
      CostTable& to = cost_[Index(gone.others[0])];
      for (size_t c = 0; c < to.size(); ++c) to[c] += least[c];
    }
    if (gone.others.size() == 2) Join(gone.others[0], gone.others[1], least);
    eliminated_.push_back(std::move(gone));
  }

  // The least cost by candidates of the first and the last neighbour, and the node's candidate that has it.
  static CostTable LeastOf(const CostTable& own, const CostTable& of_first,
                           const CostTable& of_last, std::vector<int32_t>& best) {
    const size_t first = of_first.size() / own.size(), last = of_last.size() / own.size();
    CostTable least(first * last, std::numeric_limits<int64_t>::max());
    best.assign(first * last, 0);
    for (size_t f = 0; f < first; ++f) {
      const auto least_of = std::span(least).subspan(f * last, last);
      const auto best_of = std::span(best).subspan(f * last, last);
      for (size_t c = 0; c < own.size(); ++c) {
        const int64_t cost = own[c] + of_first[c * first + f];
        const auto costs = std::span(of_last).subspan(c * last, last);
        for (size_t l = 0; l < last; ++l) {
          if (cost + costs[l] >= least_of[l]) continue;
          least_of[l] = cost + costs[l];
          best_of[l] = static_cast<int32_t>(c);
        }
      }
    }
    return least;
  }

  // Chooses a candidate for a node: its costs go to its neighbours.
  void Fix(int32_t node, int32_t candidate) {
    chosen_[Index(node)] = candidate;
    total_ += cost_[Index(node)][Index(candidate)];
    for (const auto& [other, cost] : edges_[Index(node)]) {
      CostTable& to = cost_[Index(other)];
      for (size_t c = 0; c < to.size(); ++c) to[c] += cost[Index(candidate) * to.size() + c];
    }
    Remove(node);
  }

  // A node with the most neighbours, of those one with the fewest candidates.
  int32_t MostJoined() const {
    return *std::max_element(left_.begin(), left_.end(), [this](int32_t a, int32_t b) {
      const size_t x = edges_[Index(a)].size(), y = edges_[Index(b)].size();
      return x < y || (x == y && cost_[Index(a)].size() > cost_[Index(b)].size());
    });
  }

  // Solves what is left with each candidate of a node.
  void TryEach(int32_t node, int64_t branches, bool& exact) {
    const auto candidates = static_cast<int32_t>(cost_[Index(node)].size());
    std::optional<Choices> best;
    for (int32_t c = 0; c < candidates; ++c) {
      Eliminator one = *this;
      one.eliminated_.clear();
      one.Fix(node, c);
      Choices choices = one.Run(branches / candidates);
      exact = exact && choices.exact;
      if (!best.has_value() || choices.cost < best->cost) best = std::move(choices);
    }
    chosen_ = best->candidate;
    total_ = best->cost;
  }

  // The candidate that costs least by itself and the best of each edge.
  int32_t Nearest(int32_t node) const {
    CostTable sums = cost_[Index(node)];
    for (const auto& [other, cost] : edges_[Index(node)]) {
      const CostTable& of_other = cost_[Index(other)];
      for (size_t c = 0; c < sums.size(); ++c) {
        int64_t least = std::numeric_limits<int64_t>::max();
        for (size_t k = 0; k < of_other.size(); ++k) {
          least = std::min(least, cost[c * of_other.size() + k] + of_other[k]);
        }
        sums[c] += least;
      }
    }
    return static_cast<int32_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
  }

  std::vector<CostTable> cost_;                      // indexed by node
  std::vector<std::map<int32_t, CostTable>> edges_;  // indexed by node: by candidate of it, then of
                                                     // the other
  std::vector<int32_t> left_;
  std::vector<int32_t> chosen_;  // indexed by node
  std::vector<Eliminated> eliminated_;
  int64_t total_ = 0;  // the cost of what is fixed or eliminated for good
};

}  // namespace

int64_t CostOf(const ChoiceProblem& problem, std::span<const int32_t> candidate) {
  int64_t cost = 0;
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    cost += problem.nodes[n][static_cast<size_t>(candidate[n])];
  }
  for (const ChoiceProblem::Edge& edge : problem.edges) {
    const auto a = static_cast<size_t>(edge.a), b = static_cast<size_t>(edge.b);
    const size_t columns = problem.nodes[b].size();
    cost +=
        edge.cost[static_cast<size_t>(candidate[a]) * columns + static_cast<size_t>(candidate[b])];
  }
  return cost;
}

Choices MinimizeChoices(const ChoiceProblem& problem, int64_t branches) {
  return Eliminator(problem).Run(branches);
}

}  // namespace partita

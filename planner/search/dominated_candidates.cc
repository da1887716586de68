#include <algorithm>
#include <limits>
#include <utility>

#include "planner/search/integer_program.h"

namespace partita {
namespace {

class DominanceFinder {
 public:
  DominanceFinder(const ChoiceProblem& problem, std::span<const ChoiceLimit> limits)
      : problem_(problem), limits_(limits), edges_of_(problem.nodes.size()) {
    for (const auto& costs : problem.nodes) dominated_.emplace_back(costs.size(), false);
    for (const ChoiceProblem::Edge& edge : problem.edges) {
      edges_of_[static_cast<size_t>(edge.a)].push_back(&edge);
      edges_of_[static_cast<size_t>(edge.b)].push_back(&edge);
    }
  }

  // What goes may make others go.
  std::vector<std::vector<bool>> Run() {
    for (int round = 0; round < kMostRounds && FindMore(); ++round) {
    }
    return std::move(dominated_);
  }

 private:
  static constexpr int kMostRounds = 10;

  bool FindMore() {
    bool found = false;
    for (size_t n = 0; n < dominated_.size(); ++n) {
      for (size_t c = 0; c < dominated_[n].size(); ++c) {
        for (size_t other = 0; other < dominated_[n].size() && !dominated_[n][c]; ++other) {
          if (other == c || dominated_[n][other] || !Beats(n, other, c)) continue;
          dominated_[n][c] = found = true;
        }
      }
    }
    return found;
  }

  // Whether `better` costs less than `worse` whatever the other nodes choose.
  bool Beats(size_t node, size_t better, size_t worse) const {
    const bool uses_more = std::any_of(limits_.begin(), limits_.end(), [&](const auto& limit) {
      return limit.use[node][better] > limit.use[node][worse];
    });
    if (uses_more) return false;
    int64_t least = problem_.nodes[node][worse] - problem_.nodes[node][better];
    for (const ChoiceProblem::Edge* edge : edges_of_[node]) {
      least += LeastDifference(*edge, static_cast<size_t>(edge->a) == node, better, worse);
    }
    return least > 0;
  }

  int64_t LeastDifference(const ChoiceProblem::Edge& edge, bool is_first, size_t better,
                          size_t worse) const {
    const auto other = static_cast<size_t>(is_first ? edge.b : edge.a);
    const size_t columns = problem_.nodes[static_cast<size_t>(edge.b)].size();
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t k = 0; k < dominated_[other].size(); ++k) {
      if (dominated_[other][k]) continue;
      const auto cost = [&](size_t c) {
        return edge.cost[is_first ? c * columns + k : k * columns + c];
      };
      least = std::min(least, cost(worse) - cost(better));
    }
    return least;
  }

  const ChoiceProblem& problem_;
  const std::span<const ChoiceLimit> limits_;
  std::vector<std::vector<const ChoiceProblem::Edge*>> edges_of_;  // indexed by node
  std::vector<std::vector<bool>> dominated_;                       // indexed by node, candidate
};

}  // namespace

std::vector<std::vector<bool>> DominatedCandidates(const ChoiceProblem& problem,
                                                   std::span<const ChoiceLimit> limits) {
  return DominanceFinder(problem, limits).Run();
}

bool KeepsTo(std::span<const ChoiceLimit> limits, std::span<const int32_t> candidate) {
  return std::all_of(limits.begin(), limits.end(), [&](const ChoiceLimit& limit) {
    int64_t use = 0;
    for (size_t n = 0; n < candidate.size(); ++n) {
      use += limit.use[n][static_cast<size_t>(candidate[n])];
    }
    return use <= limit.most;
  });
}

int64_t IntegerProgramSize(const ChoiceProblem& problem) {
  size_t size = 0;
  for (const auto& costs : problem.nodes) size += costs.size();
  for (const ChoiceProblem::Edge& edge : problem.edges) size += edge.cost.size();
  return static_cast<int64_t>(size);
}

}  // namespace partita

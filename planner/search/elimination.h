#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace partita {

// Additive cost of choices: each node has a number of candidates, one of which is chosen; the cost
// is the sum over nodes of the candidate's cost and over edges of that of the pair. Costs are whole
// numbers, and the sum of the largest of all fits in 62 bits.
struct ChoiceProblem {
  struct Edge {
    int32_t a = 0, b = 0;       // different nodes; several edges may join the same two
    std::vector<int64_t> cost;  // by candidate of a, then by candidate of b
  };
  std::vector<std::vector<int64_t>> nodes;  // cost by candidate, of which each node has one or more
  std::vector<Edge> edges;
};

// A linear constraint on choices: what all candidates that are chosen use is at most so much.
struct ChoiceLimit {
  std::vector<std::vector<int64_t>> use;  // by node, then candidate; not negative
  int64_t most = 0;
};

struct Choices {
  std::vector<int32_t> candidate;  // indexed by node
  int64_t cost = 0;
  bool exact = true;  // false: other choices may cost less
};

int64_t CostOf(const ChoiceProblem& problem, std::span<const int32_t> candidate);

// Choices of the least cost, by eliminating nodes with at most two neighbours and joining parallel
// edges (OptCNN: Jia, Lin, Qi, Aiken, ICML 2018, section 5): exact on chains, trees and
// series-parallel graphs, in time cubic in candidates. Of what is left where neither applies, nodes
// with the most neighbours are fixed one after another: to each of their candidates in turn while
// the product of their numbers is at most `branches`, which stays exact, and from then on to the
// one that costs least by itself and its edges.
Choices MinimizeChoices(const ChoiceProblem& problem, int64_t branches = 4096);

}  // namespace partita

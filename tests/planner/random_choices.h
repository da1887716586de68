#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "planner/search/elimination.h"

namespace partita {

inline void AddEdge(int32_t a, int32_t b, std::mt19937_64& random, ChoiceProblem& problem) {
  ChoiceProblem::Edge edge{a, b, {}};
  const size_t pairs =
      problem.nodes[static_cast<size_t>(a)].size() * problem.nodes[static_cast<size_t>(b)].size();
  for (size_t k = 0; k < pairs; ++k) edge.cost.push_back(static_cast<int64_t>(random() % 1000));
  problem.edges.push_back(std::move(edge));
}

inline int32_t AddNode(std::mt19937_64& random, ChoiceProblem& problem) {
  auto& costs = problem.nodes.emplace_back();
  const size_t candidates = 1 + random() % 4;
  for (size_t c = 0; c < candidates; ++c) costs.push_back(static_cast<int64_t>(random() % 1000));
  return static_cast<int32_t>(problem.nodes.size()) - 1;
}

// Nodes joined to the one before.
inline ChoiceProblem RandomChain(std::mt19937_64& random) {
  ChoiceProblem problem;
  const size_t nodes = 1 + random() % 7;
  for (size_t n = 0; n < nodes; ++n) {
    const int32_t node = AddNode(random, problem);
    if (node > 0) AddEdge(node - 1, node, random, problem);
  }
  return problem;
}

// From one edge on, an edge is doubled or cut in two by a node, or a node hung onto another: what
// grows is series-parallel.
inline ChoiceProblem RandomSeriesParallel(std::mt19937_64& random) {
  ChoiceProblem problem;
  AddNode(random, problem);
  AddNode(random, problem);
  AddEdge(0, 1, random, problem);
  while (problem.nodes.size() < 7) {
    const size_t k = random() % problem.edges.size();
    const int32_t a = problem.edges[k].a, b = problem.edges[k].b;
    const uint64_t kind = random() % 4;
    if (kind == 0) {
      AddEdge(b, a, random, problem);
      continue;
    }
    const int32_t node = AddNode(random, problem);
    AddEdge(a, node, random, problem);
    if (kind == 1) continue;
    AddEdge(node, b, random, problem);
    if (kind == 2) problem.edges.erase(problem.edges.begin() + static_cast<ptrdiff_t>(k));
  }
  return problem;
}

inline ChoiceProblem RandomGraphOfChoices(std::mt19937_64& random) {
  ChoiceProblem problem;
  for (int n = 0; n < 6; ++n) {
    const int32_t node = AddNode(random, problem);
    for (int32_t other = 0; other < node; ++other) {
      if (random() % 4 != 0) AddEdge(other, node, random, problem);
    }
  }
  return problem;
}

inline int64_t LeastByTrying(const ChoiceProblem& problem) {
  std::vector<int32_t> candidate(problem.nodes.size(), 0);
  int64_t least = CostOf(problem, candidate);
  for (size_t n = 0; n < candidate.size();) {
    if (static_cast<size_t>(++candidate[n]) < problem.nodes[n].size()) {
      least = std::min(least, CostOf(problem, candidate));
      n = 0;
    } else {
      candidate[n++] = 0;
    }
  }
  return least;
}

}  // namespace partita

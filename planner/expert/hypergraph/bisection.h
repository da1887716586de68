#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "planner/expert/hypergraph/hypergraph.h"

namespace partita {

// A split of a hypergraph's vertices in two.
struct Bisection {
  std::vector<int8_t> side;  // 0 or 1 for each vertex
  int64_t cut = 0;           // cost of the nets with pins on both sides
  int64_t excess = 0;        // weight above the limits of both sides
};

// The most weight of each side.
using SideLimits = std::array<int64_t, 2>;

// Less excess first, then a smaller cut.
bool IsBetter(const Bisection& a, const Bisection& b);

// Fills in `cut` and `excess`.
Bisection Measured(const Hypergraph& hypergraph, std::vector<int8_t> side,
                   const SideLimits& limits);

// The bisection after passes of Fiduccia and Mattheyses (DAC 1982): in each, every vertex moves at
// most once, the one of the largest gain first, and the best state on the way is kept. Not worse
// than the one that is given.
Bisection Refine(const Hypergraph& hypergraph, Bisection start, const SideLimits& limits);

// A bisection by all levels: vertices are matched along heavy nets until few are left, those are
// bisected from several random starts, and every level is refined on the way back.
Bisection BisectByLevels(const Hypergraph& hypergraph, const SideLimits& limits,
                         std::mt19937_64& random);

// The bisection after further passes over all levels, on each of which it is one. Not worse than
// the one that is given.
Bisection ImproveByLevels(const Hypergraph& hypergraph, Bisection bisection,
                          const SideLimits& limits, std::mt19937_64& random);

}  // namespace partita

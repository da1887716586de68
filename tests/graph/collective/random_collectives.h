#pragma once

#include <random>
#include <vector>

#include "graph/collective/algorithms.h"
#include "graph/collective/collective.h"

namespace partita {

inline constexpr int kMostRanks = 17;

// A collective of this kind; about a third of the blocks and counts are empty, some are all empty.
Collective RandomCollective(CollectiveKind kind, int ranks, std::mt19937& random);

// One algorithm doing one collective.
struct Case {
  const CollectiveAlgorithm* algorithm;
  Collective collective;
  ScheduleOptions options;
};

// Every row of the table, every kind that it does, 1 .. kMostRanks ranks, `per_count` random
// collectives each.
std::vector<Case> AllCases(int per_count, unsigned seed);

}  // namespace partita

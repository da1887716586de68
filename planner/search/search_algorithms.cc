#include <algorithm>

#include "graph/support/known_names.h"
#include "graph/support/option.h"
#include "planner/search/search_algorithm.h"

namespace partita {
namespace {

constexpr SearchRow kSearchAlgorithms[] = {
    {"auto", SearchAuto,
     "stages, dynamic programming, descent by groups of operators, annealing, single decisions"},
    {.name = "mcmc",
     .run = SearchMcmc,
     .description = "Markov chain Monte Carlo from experts and random strategies",
     .has_beta = true,
     .has_random_starts = true},
    {.name = "annealing",
     .run = SearchAnnealing,
     .description = "simulated annealing: walks from the best starts that cool down together",
     .has_random_starts = true},
    {"dynamic_programming", SearchDynamicProgramming,
     "the least sum of costs of operators and of exchanges between them, as if nothing overlapped"},
    {"ilp", SearchIlp,
     "the same sum as an integer program, with memory as a constraint (wants coinor-libcbc-dev)"},
    {.name = "beam",
     .run = SearchBeam,
     .description = "steps from each of the best few strategies so far",
     .has_random_starts = true},
    {"random", SearchRandom, "random strategies"},
    {"greedy", SearchGreedy,
     "the best configuration of one operator at a time, until nothing improves"},
    {.name = "exhaustive",
     .run = SearchExhaustive,
     .description =
         "branch and bound over mesh-shaped configurations: proves the best (small graphs)",
     .cost_of_evaluation = 4},
    {"experts", SearchStarts, "the best expert strategy"},
};

// Null where there is no search by that name.
const SearchRow* FindRow(const std::string& name) {
  for (const SearchRow& row : kSearchAlgorithms) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace

std::span<const SearchRow> SearchAlgorithms() { return kSearchAlgorithms; }

absl::StatusOr<SearchFunction> SearchNamed(const std::string& name) {
  const SearchRow* row = FindRow(name);
  if (row != nullptr) return row->run;
  return UnknownNameError("search", name, NamesOf(kSearchAlgorithms));
}

int64_t DefaultEvaluations(const Graph& graph, int devices, const std::string& search) {
  constexpr int64_t kMost = 16 * kEvaluations;
  constexpr int64_t kFewParts = 800;  // of decided operators, one on each device
  const SearchRow* row = FindRow(search);
  const int64_t cost = row == nullptr ? 1 : row->cost_of_evaluation;
  const auto anchors = static_cast<int64_t>(graph.anchors().size());
  const int64_t parts = std::max<int64_t>(1, anchors * devices);
  return std::clamp(kEvaluations * kFewParts / (parts * cost), kEvaluations, kMost / cost);
}

}  // namespace partita

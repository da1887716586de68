#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/support/option.h"
#include "planner/evaluator.h"
#include "planner/lower_bound.h"
#include "planner/space/search_space.h"

namespace partita {

struct NamedStrategy {
  std::string name;
  Strategy strategy;
};

// One accepted step, for progress and logs.
struct SearchProgress {
  int64_t evaluations = 0;
  int start = 0;  // index of the search's start
  std::string start_name;
  std::string move;  // name of the kind of step (SearchMoves), or of the search where it has none
  Nanos current, best;
  Nanos bound;  // the time of SearchProblem::bound
};

// Evaluations that a search ends with where nothing is said.
inline constexpr int64_t kEvaluations = 2000;
// Evaluations of a search (SearchAlgorithms) for a model and a machine: kEvaluations, and more for small
// models on few devices, where they take little time.
int64_t DefaultEvaluations(const Graph& graph, int devices, const std::string& search = "auto");

struct SearchOptions {
  // Most evaluations; all given starts are evaluated anyway.
  int64_t evaluations = kEvaluations;
  uint64_t seed = 0;
  double time_limit_seconds = 0;  // 0: none
  // MCMC: a step that is worse by the fraction x of the best start's time is accepted with
  // exp(-beta * x).
  double beta = 200;
  // Random starts besides the given ones.
  int random_starts = 1;
  // Most threads that evaluate at a time, fewer where memory is short; 0: one for each core.
  // Decides nothing about what is found.
  int threads = 0;
  const std::atomic<bool>* stop = nullptr;  // stop flag, set by another thread: end with the best
                                            // so far
  std::function<void(const SearchProgress&)> progress;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(Option{.name = "evaluations",
                 .help = "strategies that a search evaluates, its starts in any case; where "
                         "kernels are measured, in each round",
                 .check = WholeNumber(1),
                 .unset = "0",
                 .fallback = "2000, and up to 32000 for few operators on few devices",
                 .changes_plan = true},
          self.evaluations);
    visit(Option{.name = "seed", .help = "of the search", .check = Seed(), .changes_plan = true},
          self.seed);
    visit(Option{.name = "time_limit",
                 .help = "seconds, the best so far is kept; 0: none",
                 .check = NumberFrom(0),
                 .changes_plan = true},
          self.time_limit_seconds);
    visit(Option{.name = "beta",
                 .help = "of mcmc: how seldom a slower strategy is accepted",
                 .check = NumberFrom(0),
                 .changes_plan = true},
          self.beta);
    visit(
        Option{
            .name = "random_starts",
            .help =
                "of mcmc, annealing and beam: random strategies to begin from besides the experts'",
            .check = WholeNumber(0, 1'000'000),
            .changes_plan = true},
        self.random_starts);
    visit(Option{.name = "search_threads",
                 .help = "threads that evaluate strategies, which change nothing else",
                 .check = WholeNumber(0, 1024),
                 .fallback = "one for each core"},
          self.threads);
  }
};

// The pods that a search looks at for another one.
struct PodScope {
  // kNodes: all that `auto` finds for pods of a node, and for larger ones that go on from that.
  // kTwoNodes: the best start with its stages cut in two, if that is far faster, for pods of two nodes,
  // the smallest with stages that fill a node each and work at the same time; where there are several.
  // kParts: the best start for equal parts of all devices, of several nodes each, where devices are many.
  enum class Kind { kNodes, kTwoNodes, kParts };
  Kind kind = Kind::kNodes;
  int parts = 0;  // of kParts
  // Pods whose starts all take longer are not searched; starts of kNodes are compared without buckets.
  Nanos most_of_starts = kNoCutoff;
  // Names of the starts that are worth trying; empty: all are.
  std::vector<std::string> starts = {};
  // The size of buckets to compare with (SearchProblem::bucket_bytes), which pods do not change.
  Bytes bucket_bytes{0};
};

struct SearchProblem {
  const Evaluator& evaluator;
  // The decisions that may be made; all others stay as in the start.
  SearchSpace space;
  // Starting strategies, such as the experts'. At least one must be feasible.
  std::vector<NamedStrategy> starts;
  // A lower bound: where it is complete, a search ends when its best is as short; 0: none is known.
  LowerBound bound = {};
  // A start, by its name, made for the first devices only; nullopt where there is none. May be
  // empty. The best starts are tried on fewer and fewer devices: where communication is dear, that
  // is faster, and a search by single decisions does not find there.
  std::function<std::optional<Strategy>(const std::string& start, int devices)> on_fewer = nullptr;
  // Strategies of all devices that a search for pods found, with so many evaluations of a pod. May be
  // empty. A pod's step is that of all, and takes a part of the time to evaluate.
  struct OfPods {
    std::vector<NamedStrategy> strategies;
    int64_t evaluations = 0;
    bool are_far_behind = false;  // their starts are, so that they were not searched
  };
  std::function<OfPods(const SearchOptions& options, const PodScope& scope)> by_pods = nullptr;
  // Whether another search goes on from what this one finds: it ends as soon as more evaluations gain
  // little.
  bool is_part = false;
  // The size up to which all-reduces may go in buckets in what is compared
  // (Evaluator::EvaluateBriefly); 0: they go alone.
  Bytes bucket_bytes{0};
  // Whether steps are compared in their best orders (Evaluator::EvaluateBrieflyInBestOrder), which takes
  // several times as long, where in the order of searches they are not far behind.
  bool in_best_order = false;
  // The first so many starts are what other searches found: they are never put off (EvaluateStarts).
  size_t found_starts = 0;
};

// The cheapest strategy that came from one start, or from one search.
struct FoundStrategy {
  NamedStrategy found;  // named by its origin
  Nanos time;
};

struct SearchResult {
  Strategy best;
  Evaluation evaluation;  // as EvaluateBriefly answers
  std::string origin;     // the start that the best came from, or the name of the search
  int64_t evaluations = 0;
  int64_t accepted = 0;
  double seconds = 0;
  bool interrupted = false;  // true: ended by stop or the time limit
  // Different strategies that fit, one for each origin, in the order in which those first came.
  std::vector<FoundStrategy> by_origin;
  // Whether every combination of the space's candidates was tried, or excluded by a lower bound:
  // none is faster.
  bool walked_all = false;
  // Whether every candidate of every subject was tried in place of the best's own decision: none
  // alone is faster. False: not known.
  bool locally_optimal = false;
};

// Finds a cheap strategy. Equal problem and options give equal results, unless a time limit or
// `stop` ended the search. Never worse than its best start; where time limit or `stop` end it among
// the starts, than the best of those so far, of which at least one fits. ResourceExhausted if
// nothing that was tried fits in memory: by how much the nearest missed it. Cancelled if `stop`
// ended it before anything was found.
using SearchFunction = absl::StatusOr<SearchResult> (*)(const SearchProblem&, const SearchOptions&);

// Stages, pods, dynamic programming, descent by groups of operators, and annealing; where the budget
// does for it, every combination, or halves of the operators and single decisions at the end (auto.cc).
absl::StatusOr<SearchResult> SearchAuto(const SearchProblem& problem, const SearchOptions& options);
absl::StatusOr<SearchResult> SearchMcmc(const SearchProblem& problem, const SearchOptions& options);
// All starts, and every combination of the space's candidates, all else as in the first start, by
// branch and bound, without buckets: exact under the simulator. Of a part of the decisions a lower bound is found
// for all steps that have it (planner/bound/partial_bound.h); where that is not below the best so
// far, none of them is evaluated. Ends with the best so far, and without a proof
// (SearchResult::walked_all), with the budget: that of evaluations, and 64 bounds for each of them.
// InvalidArgument if the candidates, one after another, are more than options.evaluations.
absl::StatusOr<SearchResult> SearchExhaustive(const SearchProblem& problem,
                                              const SearchOptions& options);
// The strategies that are best by an additive cost (planner/search/dynamic_programming.h).
absl::StatusOr<SearchResult> SearchDynamicProgramming(const SearchProblem& problem,
                                                      const SearchOptions& options);
// The strategies that are best by the same additive cost, as an integer program with memory as a
// constraint (planner/search/integer_program.h): of each share of communication the cheapest few
// that the solver met. Each operator chooses by itself, as long as the program has at most 100,000
// variables; otherwise like operators share a choice. FailedPrecondition, which names the package
// to install, where the build has no solver.
absl::StatusOr<SearchResult> SearchIlp(const SearchProblem& problem, const SearchOptions& options);
// Simulated annealing from the best starts: walks take turns (planner/search/annealing.h).
absl::StatusOr<SearchResult> SearchAnnealing(const SearchProblem& problem,
                                             const SearchOptions& options);
// The best few strategies of all, from each of which several steps are tried in a round.
absl::StatusOr<SearchResult> SearchBeam(const SearchProblem& problem, const SearchOptions& options);
// Random decisions about all subjects.
absl::StatusOr<SearchResult> SearchRandom(const SearchProblem& problem,
                                          const SearchOptions& options);
// The best of the starts.
absl::StatusOr<SearchResult> SearchStarts(const SearchProblem& problem,
                                          const SearchOptions& options);
// One subject at a time, the best of its candidates, until a whole round improves nothing.
absl::StatusOr<SearchResult> SearchGreedy(const SearchProblem& problem,
                                          const SearchOptions& options);

struct SearchRow {
  const char* name;
  SearchFunction run;
  const char* description;
  // Whether it has these of the options, which say so in their help.
  bool has_beta = false, has_random_starts = false;
  // Evaluations of others that one of this search takes the time of: DefaultEvaluations above
  // kEvaluations are divided by it.
  int64_t cost_of_evaluation = 1;
};
// THE table of search algorithms.
std::span<const SearchRow> SearchAlgorithms();
// NotFound lists the valid names.
absl::StatusOr<SearchFunction> SearchNamed(const std::string& name);

}  // namespace partita

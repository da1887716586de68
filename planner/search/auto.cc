// Several searches in turn. The starts on fewer devices; those for pods of two nodes, with their stages
// cut in two; unless stages that work at the same time are far faster there, the starts on all devices
// that are not behind on fewer; but for recurrent models branches side by side, where that is far
// faster; the best with its stages cut in two. Where stages work at the same time without pods of two
// nodes, starts for parts of the devices as pods, those near the best changed by groups of operators for
// a while; where none do, the best strategies of pods, and the best that dynamic programming makes of
// them, on all devices and on fewer; where the budget does for every combination, all of them. Then the
// best changed by groups of operators as long as that makes it faster, where problems are small each
// start; the starts that were put off; annealing from the best of all, where problems are small again
// and again, first from the starts; and where the budget does for it, single decisions until none
// improves the best. Ends early where the best takes no more than the lower bound.
#include <algorithm>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "planner/search/annealing.h"
#include "planner/search/dynamic_programming.h"
#include "planner/search/improve_groups.h"
#include "planner/search/improve_stages.h"
#include "planner/search/list_placement.h"
#include "planner/space/recurrent_layers.h"
#include "planner/space/stage_moves.h"

namespace partita {
namespace {

// Parts of all devices that are looked at as pods.
constexpr int kMostParts = 8;
// Part of the budget that goes to pods.
constexpr double kPartOfPods = 0.5;
// Part of what is left that goes to groups, and these.
constexpr double kPartOfGroups = 0.8;
// Of what is left in a small problem: walks find some more from where descents from several starts end,
// and some from the starts.
constexpr double kPartOfDescents = 0.15;
// Starts that take at most so many times the best are near it: on fewer devices dynamic programming is
// then worth its time, for parts of the devices a trial.
constexpr double kNear = 1.05;
// Pods of nodes of which a start takes at most so many times the best are worth a search of their own.
constexpr double kNearForPods = 1.125;
// What starts take, in multiples of what branches side by side take that are far faster.
constexpr double kWithoutBranches = 1.25;
// What takes less than so many times the best is improved by groups for so many evaluations, which
// shows what is in it.
constexpr double kContends = 1.25;
constexpr int64_t kTrial = 60;
// Evaluations after which walks of a small problem begin again.
constexpr int64_t kRound = 1500;
// Part of a time limit after which dynamic programming is given up.
constexpr double kEndOfPrograms = 0.5;

// The candidates of all subjects: their sum, and the number of their combinations; both above what
// is left of the budget where the sum is.
struct CandidateCount {
  double sum = 0;
  double combinations = 1;
};

CandidateCount CountCandidates(const SearchSpace& space, SearchState& state) {
  const int64_t most = state.left();
  const auto ends = [&state] { return state.Done(); };
  CandidateCount count;
  for (DecisionSubject subject : space.subjects()) {
    const auto candidates = static_cast<double>(space.CountCandidates(subject, most, ends));
    count.sum += candidates;
    count.combinations = std::min(count.combinations * candidates, 1e18);
    if (count.sum > static_cast<double>(most) || state.Done()) return {1e18, 1e18};
  }
  return count;
}

// The time from which on a strategy is no place for walks to begin.
Nanos FarBehind(const SearchState& state) {
  return state.has_best() ? TimesOf(state.best_time(), kMostOfGatheredWalks) : kNoCutoff;
}

// Adds the best of the strategies, each evaluated up to the cutoff then. Only that: they are much alike,
// and walks are to begin in different places.
void AddBestOf(const SearchProblem& problem, std::vector<NamedStrategy> made,
               absl::FunctionRef<Nanos()> cutoff, SearchState& state,
               std::vector<WalkPoint>& points) {
  std::vector<WalkPoint> tried;
  for (NamedStrategy& start : made) {
    if (state.Done()) break;
    if (!AddStart(problem, std::move(start), cutoff(), state, tried)) break;
  }
  const auto best = std::min_element(tried.begin(), tried.end());
  if (best != tried.end()) points.push_back(std::move(*best));
}

// Adds the best that dynamic programming makes of the base.
void AddBestProgram(const SearchProblem& problem, const Strategy& base, const std::string& name,
                    SearchState& state, std::vector<WalkPoint>& points) {
  const auto stop = [&state] { return state.IsStopped() || state.PartOfTime() > kEndOfPrograms; };
  std::vector<NamedStrategy> made = DynamicProgrammingStarts(problem, base, stop, state.threads());
  for (NamedStrategy& start : made) start.name = name;
  AddBestOf(problem, std::move(made), [&state] { return FarBehind(state); }, state, points);
}

// The starts that there are on so many of the devices, the best first.
std::vector<NamedStrategy> StartsOn(int devices, const SearchProblem& problem,
                                    const std::vector<WalkPoint>& points) {
  std::vector<NamedStrategy> starts;
  for (const WalkPoint& point : points) {
    auto strategy = problem.on_fewer(point.name, devices);
    if (strategy.has_value()) starts.push_back({point.name, *std::move(strategy)});
  }
  return starts;
}

// Whether a start on so many devices at most is the best of all, or nearly. Precondition: the points
// are not empty, the best first.
bool AreFewerNear(int devices, const Graph& graph, const std::vector<WalkPoint>& points) {
  const Nanos near = TimesOf(points[0].time, kNear);
  return std::any_of(points.begin(), points.end(), [&](const WalkPoint& point) {
    return point.excess_memory == 0 && point.time <= near &&
           DevicesOf(graph, point.strategy) <= devices;
  });
}

// The same problem for half of the operators only, with the others as in its starts.
SearchProblem HalfOf(const SearchProblem& problem, size_t begin) {
  const std::span<const OpId> operators = problem.space.operators();
  const size_t half = (operators.size() + 1) / 2;
  std::vector<DecisionSubject> others;
  for (size_t k = 0; k < operators.size(); ++k) {
    if (k < begin || k >= begin + half) others.push_back(SubjectOf(operators[k]));
  }
  SearchProblem part = problem;
  part.space = problem.space.Without(others);
  return part;
}

// The best of dynamic programming for halves of the operators, with the others as in the start: sums of
// costs that are wrong for all of them may be right for some.
std::vector<WalkPoint> ProgramsOfHalves(const SearchProblem& problem, const Strategy& start,
                                        SearchState& state) {
  std::vector<WalkPoint> points;
  const size_t others = problem.space.operators().size() / 2;
  if (others < 2) return points;
  const std::pair<const char*, size_t> halves[] = {
      {"first", 0}, {"middle", others / 2}, {"last", others}};
  for (const auto& [name, begin] : halves) {
    if (state.Done()) break;
    AddBestProgram(HalfOf(problem, begin), start,
                   absl::StrCat("dynamic_programming of the ", name, " half"), state, points);
  }
  std::stable_sort(points.begin(), points.end());
  return points;
}

// Dynamic programming on all devices, on a quarter of them, and so on, where starts show that fewer
// do: sums of costs do not tell what many devices cost that wait for each other.
void AddDynamicProgramming(const SearchProblem& problem, SearchState& state,
                           std::vector<WalkPoint>& points) {
  if (points.empty() || state.Done()) return;
  const std::vector<WalkPoint> starts = points;
  AddBestProgram(problem, starts[0].strategy, "dynamic_programming", state, points);
  const bool tries_fewer = problem.on_fewer && problem.space.whole();
  for (int devices = problem.space.devices() / kFewerDevices;
       tries_fewer && devices > 1 && !state.Done() && AreFewerNear(devices, state.graph(), starts);
       devices /= kFewerDevices) {
    const SearchProblem of_fewer{problem.evaluator, SearchSpace(state.graph(), devices),
                                 StartsOn(devices, problem, starts)};
    if (of_fewer.starts.empty()) continue;
    AddBestProgram(of_fewer, of_fewer.starts[0].strategy,
                   absl::StrCat("dynamic_programming on ", devices, " devices"), state, points);
  }
  std::stable_sort(points.begin(), points.end());
}

// Adds the best that list placement makes, where it is far faster than the starts: where it is not,
// what begins with those finds more. The points are, and stay, the best first.
void AddListPlacement(const SearchProblem& problem, SearchState& state,
                      std::vector<WalkPoint>& points) {
  // What smaller pods found has such branches already.
  if (points.empty() || state.Done() || problem.found_starts > 0) return;
  const Nanos most = TimesOf(state.to_beat(), 1 / kWithoutBranches);
  const auto stop = [&state] { return state.IsStopped(); };
  AddBestOf(
      problem, ListPlacements(problem, points[0].strategy, most, stop), [most] { return most; },
      state, points);
  std::stable_sort(points.begin(), points.end());
}

// Improves a point by groups, larger ones first, and adds what is faster. The points are, and stay, the
// best first.
void AddImproved(const WalkPoint& from, int64_t budget, GroupDescents& descents,
                 std::vector<WalkPoint>& points) {
  WalkPoint improved = descents.Improve(from, budget);
  if (improved.time < from.time) points.push_back(std::move(improved));
  std::stable_sort(points.begin(), points.end());
}

// Improves starts for pods that are near the best for a while.
void AddContenders(SearchState& state, std::span<const WalkPoint> contenders,
                   GroupDescents& descents, std::vector<WalkPoint>& points) {
  for (const WalkPoint& point : contenders) {
    if (state.Done() || point.time >= TimesOf(points[0].time, kContends)) continue;
    AddImproved(point, kTrial, descents, points);
  }
}

// Improves the best point.
void AddGroups(SearchState& state, GroupDescents& descents, std::vector<WalkPoint>& points) {
  if (points.empty()) return;
  const auto budget = static_cast<int64_t>(kPartOfGroups * static_cast<double>(state.left()));
  AddImproved(points[0], budget, descents, points);
}

// Improves the starts, the best first.
void AddDescents(SearchState& state, std::span<const WalkPoint> starts, GroupDescents& descents,
                 std::vector<WalkPoint>& points) {
  const int64_t end =
      state.left() - static_cast<int64_t>(kPartOfDescents * static_cast<double>(state.left()));
  for (const WalkPoint& start : starts) {
    if (state.Done() || state.left() <= end) break;
    AddImproved(start, state.left() - end, descents, points);
  }
}

// The time of the best strategy without buckets, as pods' first starts are compared with it; kNoCutoff
// where nothing was found.
Nanos TimeWithoutBuckets(const SearchProblem& problem, const SearchState& state) {
  if (!state.has_best() || problem.bucket_bytes == Bytes(0)) return state.to_beat();
  const Evaluation evaluation = problem.evaluator.EvaluateBriefly(
      state.best(), kNoCutoff, [&state] { return state.IsStopped(); });
  return evaluation.feasible() ? evaluation.time : state.to_beat();
}

// Whether the best has stages that work at the same time.
bool HasStages(const SearchProblem& problem, const SearchState& state) {
  return state.has_best() && HasStagesApart(problem.space, state.best());
}

// What a search for pods added.
struct AddedPods {
  std::vector<WalkPoint> points;
  bool are_far_behind = false;  // SearchProblem::OfPods
};

// Adds what a search for pods finds. The points are, and stay, the best first.
AddedPods AddPods(const SearchProblem& problem, SearchState& state, const PodScope& scope,
                  std::vector<WalkPoint>& points) {
  AddedPods added;
  if (!problem.by_pods || !problem.space.whole() || state.Done()) return added;
  SearchProblem::OfPods found = problem.by_pods(state.PartOfOptions(kPartOfPods), scope);
  state.CountEvaluations(found.evaluations);
  added.are_far_behind = found.are_far_behind;
  for (NamedStrategy& start : found.strategies) {
    if (!AddStart(problem, std::move(start), FarBehind(state), state, added.points)) break;
  }
  points.insert(points.end(), added.points.begin(), added.points.end());
  std::stable_sort(points.begin(), points.end());
  return added;
}

// Adds what pods of two nodes make of the starts near the best on fewer devices, with their stages cut in
// two where that is far faster: an evaluation of them takes a part of the time. Returns whether they have
// stages that work at the same time, and are faster than all points.
bool AddTwoNodes(const SearchProblem& problem, SearchState& state,
                 const std::vector<std::string>& near, std::vector<WalkPoint>& points) {
  if (points.empty()) return false;
  const Nanos before = state.to_beat();
  AddPods(problem, state,
          {.kind = PodScope::Kind::kTwoNodes, .starts = near, .bucket_bytes = problem.bucket_bytes},
          points);
  return state.to_beat() < before && HasStages(problem, state);
}

// Adds starts for parts of the devices as pods, for stages that work at the same time, and improves those
// near the best by groups for a while, those for small parts first; from starts near the best on fewer.
void AddParts(const SearchProblem& problem, SearchState& state,
              const std::vector<std::string>& near, GroupDescents& descents,
              std::vector<WalkPoint>& points) {
  const Nanos most = TimesOf(state.to_beat(), kNear);
  PodScope scope{.kind = PodScope::Kind::kParts,
                 .most_of_starts = most,
                 .starts = near,
                 .bucket_bytes = problem.bucket_bytes};
  std::vector<WalkPoint> starts;
  bool goes_on = true;
  for (scope.parts = 2; goes_on && scope.parts <= kMostParts; scope.parts *= 2) {
    AddedPods added = AddPods(problem, state, scope, points);
    for (WalkPoint& one : added.points) starts.push_back(std::move(one));
    // Smaller parts are further behind.
    goes_on = !added.are_far_behind;
  }
  std::reverse(starts.begin(), starts.end());
  std::erase_if(starts, [&](const WalkPoint& start) { return start.time > most; });
  AddContenders(state, starts, descents, points);
}

// Evaluates the starts that were put off up to the best so far, of which they are not to be faster.
void AddPutOff(const SearchProblem& problem, std::span<const NamedStrategy> put_off,
               SearchState& state, std::vector<WalkPoint>& points) {
  for (const NamedStrategy& start : put_off) {
    if (!AddStart(problem, start, state.to_beat(), state, points)) break;
  }
  std::stable_sort(points.begin(), points.end());
}

absl::StatusOr<SearchResult> Finish(const SearchProblem& problem,
                                    std::span<const NamedStrategy> put_off, SearchState& state,
                                    std::vector<WalkPoint>& points) {
  AddPutOff(problem, put_off, state, points);
  return state.Finish();
}

}  // namespace

absl::StatusOr<SearchResult> SearchAuto(const SearchProblem& problem,
                                        const SearchOptions& options) {
  SearchState state(problem, options);
  std::vector<NamedStrategy> put_off;
  const bool is_of_stages = problem.space.devices() > kMostWithoutStages;
  const bool is_recurrent = !RecurrentLayers(problem.space.graph()).empty();
  std::vector<std::string> near;
  bool found_stages = false;
  const auto look = [&](const std::vector<std::string>& near_few, std::vector<WalkPoint>& few) {
    near = near_few;
    // Stages of recurrent layers are more than two.
    found_stages = is_of_stages && !is_recurrent && AddTwoNodes(problem, state, near, few);
    return found_stages;
  };
  // Random strategies are far behind what experts do, and take long to be found so.
  const StartRules rules{
      .most = kMostOfGatheredWalks, .has_random = false, .put_off = &put_off, .look = look};
  ASSIGN_OR_RETURN(std::vector<WalkPoint> points, EvaluateStarts(problem, options, state, rules));
  if (!is_recurrent && problem.space.whole()) AddListPlacement(problem, state, points);
  // Where recurrent layers are stages that work at the same time, others gain nothing.
  const bool has_recurrent = is_recurrent && HasStages(problem, state);
  if (is_of_stages && !found_stages && !has_recurrent) {
    AddStages(problem, state, kNoCutoff, points);
  }
  const Nanos with_stages = state.to_beat();
  GroupDescents descents(problem, state, kGroupings);
  // Sums of costs do not tell what stages save that work at the same time.
  const bool is_overlapped = is_of_stages && HasStages(problem, state);
  if (is_overlapped && !found_stages) {
    AddParts(problem, state, near, descents, points);
  } else if (!is_overlapped) {
    const Nanos without_buckets = TimeWithoutBuckets(problem, state);
    const PodScope scope{.most_of_starts = TimesOf(without_buckets, kNearForPods),
                         .bucket_bytes = problem.bucket_bytes};
    AddPods(problem, state, scope, points);
  }
  if (state.Done()) return Finish(problem, put_off, state, points);
  // Was part of the search for pods, for less.
  const bool is_of_pods = state.to_beat() < with_stages;
  std::optional<Strategy> best_start;
  if (!points.empty()) best_start = points[0].strategy;
  if (!is_overlapped && !is_of_pods) AddDynamicProgramming(problem, state, points);
  const CandidateCount count = CountCandidates(problem.space, state);
  const bool walked_all =
      count.combinations <= static_cast<double>(state.left()) && WalkAll(problem, state);
  // Two rounds of single decisions: what improves, and that nothing does.
  const auto kept = static_cast<int64_t>(2 * count.sum);
  const bool ends_locally = 3 * count.sum <= static_cast<double>(state.left());
  if (is_of_stages && !has_recurrent) AddStages(problem, state, with_stages, points);
  const std::vector<WalkPoint> starts = points;
  if (ends_locally) {
    AddDescents(state, starts, descents, points);
    // Behind the others; walks are not to begin there.
    if (best_start.has_value()) {
      AddDescents(state, ProgramsOfHalves(problem, *best_start, state), descents, points);
    }
  } else {
    AddGroups(state, descents, points);
  }
  if (problem.is_part) return Finish(problem, put_off, state, points);
  AddPutOff(problem, put_off, state, points);
  // Where the budget ends locally it does for walks again and again, half of them from the starts.
  const int64_t for_walks = state.left() - (ends_locally ? kept : 0);
  const int64_t rounds = ends_locally ? std::max<int64_t>(1, for_walks / kRound) : 1;
  for (int64_t round = 0; round < rounds; ++round) {
    const bool is_from_starts = 2 * round + 1 < rounds;
    Anneal(problem, options, state,
           {is_from_starts ? starts : points, for_walks / rounds, static_cast<int>(round)});
  }
  if (ends_locally) ImproveLocally(problem, state);
  absl::StatusOr<SearchResult> result = state.Finish();
  if (result.ok()) result->walked_all = walked_all;
  return result;
}

}  // namespace partita

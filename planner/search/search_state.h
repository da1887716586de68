#pragma once

#include <chrono>
#include <string>

#include "graph/support/stop_flag.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// State of every search: the budget, the clock, and the best strategy so far.
class SearchState {
 public:
  SearchState(const SearchProblem& problem, const SearchOptions& options)
      : problem_(problem), options_(options), begin_(std::chrono::steady_clock::now()) {}

  // Evaluates, counts unless it is invalid, and keeps the strategy if it is the best. `cutoff` as in
  // Evaluator::EvaluateBriefly.
  Evaluation Try(const Strategy& strategy, const std::string& origin, Nanos cutoff = kNoCutoff);

  // InvalidArgument if the problem has no starts.
  absl::Status NeedStarts() const;
  // All given starts whatever the budget; once one fits, as many as time limit and `stop` leave.
  // InvalidArgument if there are none.
  absl::Status TryStarts();

  // Whether the budget, the time or the user ends the search, or nothing can be faster.
  bool Done();
  const Graph& graph() const { return problem_.space.graph(); }
  bool has_best() const { return has_best_; }
  Nanos best_time() const { return result_.evaluation.time; }
  const Strategy& best() const { return result_.best; }
  const std::string& origin() const { return result_.origin; }
  int64_t evaluations() const { return result_.evaluations; }
  int64_t left() const { return options_.evaluations - result_.evaluations; }
  // The part of the time limit that is over; 0 where there is none.
  double PartOfTime() const {
    return options_.time_limit_seconds > 0 ? Seconds() / options_.time_limit_seconds : 0;
  }
  // To be called by searches that try the given starts by themselves, when they have.
  void StartsAreTried() { starts_tried_ = true; }
  // Says that every candidate was tried in the best (SearchResult::locally_optimal).
  void SetLocallyOptimal() { result_.locally_optimal = has_best_; }
  // Counts an accepted step of a chain, by a kind of move.
  void CountAccepted(int start, const std::string& name, const std::string& move, Nanos current);

  // The errors of searches (see search_algorithm.h) where nothing that was tried is feasible.
  absl::StatusOr<SearchResult> Finish();

 private:
  void NoteByOrigin(const Strategy& strategy, const std::string& origin, Nanos time);
  bool Stopped() const { return IsSet(options_.stop); }
  bool TimeIsUp() const {
    return options_.time_limit_seconds > 0 && Seconds() > options_.time_limit_seconds;
  }
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  const SearchProblem& problem_;
  const SearchOptions& options_;
  const std::chrono::steady_clock::time_point begin_;
  SearchResult result_;
  bool has_best_ = false;
  bool starts_tried_ = false;  // from then on evaluations are interrupted even if none fits
  // The strategy with the least excess memory, as long as none fits; and why others cannot run at
  // all.
  std::string nearest_miss_, invalid_;
  Bytes smallest_excess_;
};

// Every combination of the space's candidates, all else as in the first start. Precondition: they
// are few. False where the search stopped before the last.
bool WalkAll(const SearchProblem& problem, SearchState& state);

// One subject of the space at a time, the best of its candidates in the best strategy so far, until
// a whole round improves nothing, which makes it locally optimal, or the search is to stop.
void ImproveLocally(const SearchProblem& problem, SearchState& state);

}  // namespace partita

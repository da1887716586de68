#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/support/stop_flag.h"
#include "graph/support/worker_threads.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// A strategy to be evaluated. Refers to what outlives the call that it is for.
struct SearchTrial {
  const Strategy* strategy = nullptr;
  const std::string* origin = nullptr;
  Nanos cutoff = kNoCutoff;  // as in Evaluator::EvaluateBriefly
};
// Strategies that searches try at a time, where they do not depend on each other: enough for the
// threads of a large host. A constant, as what is found is to be the same with any number of them.
inline constexpr size_t kMostTrials = 16;

// State of every search: the budget, the clock, and the best strategy so far.
class SearchState {
 public:
  SearchState(const SearchProblem& problem, const SearchOptions& options)
      : problem_(problem),
        options_(options),
        begin_(std::chrono::steady_clock::now()),
        threads_(ThreadsOf(options), "evaluating strategies") {}

  // Evaluates, counts unless it is invalid, and keeps the strategy if it is the best.
  Evaluation Try(const Strategy& strategy, const std::string& origin, Nanos cutoff = kNoCutoff);
  // The parts of that, for those who evaluate several at a time and count them in an order of their
  // own. Evaluate: may be called by several threads, while nothing else of the state is. Keep: of an
  // evaluation that is within.
  Evaluation Evaluate(const SearchTrial& trial) const;
  void Count(const Evaluation& evaluation);
  void Keep(const Strategy& strategy, const std::string& origin, const Evaluation& evaluation);
  // The same for all, which are evaluated at the same time and then counted in their order.
  std::vector<Evaluation> TryAll(std::span<const SearchTrial> trials);
  // The first half of that. `meanwhile`: other work, which may be done by another thread at the same time.
  std::vector<Evaluation> EvaluateAll(
      std::span<const SearchTrial> trials, absl::FunctionRef<void()> meanwhile = [] {});
  // The threads that trials like the last ones are evaluated by at a time.
  int ThreadsOfTrials();
  // Callbacks of TryEach, which asks for a strategy by its number and for the cutoff of the next ones,
  // and tells what it found.
  struct Batch {
    absl::FunctionRef<Strategy(size_t number)> make;
    absl::FunctionRef<Nanos()> cutoff;
    absl::FunctionRef<void(Strategy&, const Evaluation&)> take;
  };
  // The same for so many strategies, as many at a time as the budget leaves. False where the search
  // stopped.
  bool TryEach(size_t count, const std::string& origin, const Batch& batch);
  // The same up to the best time so far and as of its origin. Precondition: there is a best.
  bool TryInPlaceOfBest(size_t count, absl::FunctionRef<Strategy(size_t number)> make);

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
  // The best time; kNoCutoff where nothing was found.
  Nanos to_beat() const { return has_best() ? best_time() : kNoCutoff; }
  const Strategy& best() const { return result_.best; }
  const std::string& origin() const { return result_.origin; }
  int64_t evaluations() const { return result_.evaluations; }
  int64_t left() const { return options_.evaluations - result_.evaluations; }
  // Whether the user or the time ends the search. May be asked by several threads.
  bool IsStopped() const { return Stopped() || TimeIsUp(); }
  // The search's threads, as many as there is memory for, for work that is no evaluation.
  WorkerThreads& threads();
  // The number of so many trials that the budget has left, at most kMostTrials.
  size_t TrialsLeft(size_t trials) const {
    return std::min({trials, kMostTrials, static_cast<size_t>(std::max<int64_t>(0, left()))});
  }
  // The part of the time limit that is over; 0 where there is none.
  double PartOfTime() const {
    return options_.time_limit_seconds > 0 ? Seconds() / options_.time_limit_seconds : 0;
  }
  // Seconds since the search began.
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  // Counts what was evaluated elsewhere.
  void CountEvaluations(int64_t evaluations) { result_.evaluations += evaluations; }
  // The given options with a part of the evaluations and of the time that are left, for another
  // search, of whose steps nothing is told.
  SearchOptions PartOfOptions(double part) const;
  // To be called by searches that try the given starts by themselves, when they have.
  void StartsAreTried() { starts_tried_ = true; }
  // Says that every candidate was tried in the best (SearchResult::locally_optimal).
  void SetLocallyOptimal() { result_.locally_optimal = has_best_; }
  // Counts an accepted step of a chain, by a kind of move.
  void CountAccepted(int start, const std::string& name, const std::string& move, Nanos current);
  // Tells that a start has become the best.
  void TellStart(const std::string& name);

  // The errors of searches (see search_algorithm.h) where nothing that was tried is feasible.
  absl::StatusOr<SearchResult> Finish();

 private:
  static int ThreadsOf(const SearchOptions& options);
  // Threads that there is memory for.
  int MostThreads();
  // The same for problems in best orders.
  Evaluation EvaluateInBestOrder(const SearchTrial& trial,
                                 const std::function<bool()>& interrupted) const;
  void Note(const SearchTrial& trial, const Evaluation& evaluation);
  void NoteByOrigin(const Strategy& strategy, const std::string& origin, Nanos time);
  void Tell(int start, const std::string& name, const std::string& move, Nanos current) const;
  bool Stopped() const { return IsSet(options_.stop); }
  bool TimeIsUp() const {
    return options_.time_limit_seconds > 0 && Seconds() > options_.time_limit_seconds;
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
  int64_t most_tasks_ = 0;  // of a strategy that was tried
  // MostThreads, and the most tasks that it was found for.
  int most_threads_ = 0;
  int64_t threads_for_tasks_ = -1;
  double trial_seconds_ = 1;  // that a trial took lately, in the mean
  WorkerThreads threads_;
};

// Every combination of the space's candidates, all else as in the first start, but for those that
// no lower bound lets be faster than the best so far (SearchExhaustive); with buckets
// (SearchProblem::bucket_bytes) without exception. Precondition: the candidates are few. False where the search stopped before the last.
bool WalkAll(const SearchProblem& problem, SearchState& state);

// One subject of the space at a time, the best of its candidates in the best strategy so far, until
// a whole round improves nothing, which makes it locally optimal, or the search is to stop.
void ImproveLocally(const SearchProblem& problem, SearchState& state);

}  // namespace partita

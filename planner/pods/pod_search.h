#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "planner/plan_clock.h"
#include "planner/pods/pod_problem.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// The name of what came from a strategy of a pod, as one of all devices, "data_parallel for pods of 8";
// what came from smaller pods has theirs.
std::string NameForPods(const std::string& name, Pods pods);

// Searches for the best strategy of a pod: of small pods first, then of larger ones, which begin with
// what was found. Two thirds of what is left of evaluations and time go to each size but the last. Where
// the search is `auto`, by itself, and the model recurrent, a part of that goes to steps in their best
// orders: what it found is changed by groups of operators as long as such a step gets faster.
class PodSearch {
 public:
  // All outlive the search. The options' limits are for all sizes together. `scope`: of the pods that
  // another search looks at; nullopt: this one is by itself, and looks at those of PodSizes.
  PodSearch(const Evaluator& whole, const GraphAt& graph_at, SearchFunction search,
            const SearchOptions& options, std::optional<PodScope> scope = std::nullopt)
      : whole_(whole),
        graph_at_(graph_at),
        search_(search),
        options_(options),
        is_part_(scope.has_value()),
        scope_(is_part_ ? *std::move(scope) : PodScope()),
        clock_(options.time_limit_seconds) {}

  // Errors of searches where nothing was found; Declined where there are no pods.
  absl::Status Run();

  // Pods of the best, what was searched, and what was found there. Precondition: Run was ok.
  const PodProblem& pods() const { return *pods_; }
  const SearchProblem& problem() const { return *problem_; }
  const SearchResult& found() const { return found_.result; }
  // The best of each size that was better than those before it, as strategies of all devices.
  std::vector<NamedStrategy> TakeStrategies() { return std::move(strategies_); }
  int64_t evaluations() const { return evaluations_; }  // of all sizes
  // Whether starts of a size took longer than those that are worth a search.
  bool is_far_behind() const { return is_far_behind_; }

 private:
  std::vector<int> Sizes() const;
  bool IsOver() const;
  // The size of buckets that pods are compared with, as BucketBytesForSearches.
  Bytes BucketBytesFor(const PodProblem& pods) const;
  // Whether all starts of pods take longer than those that are worth a search.
  bool IsFarBehind(const SearchProblem& problem);
  // Leaves those that are worth trying, if there are any.
  void KeepStarts(std::vector<NamedStrategy>& starts) const;
  absl::Status SearchSize(int size, bool is_last);
  // What pods of a size do best, and the time that sizes are compared by.
  struct OfSize {
    SearchResult result;
    Nanos time;
  };
  // Searches with the part of what is left.
  absl::StatusOr<OfSize> SearchPart(const SearchProblem& problem, double part);
  // Goes on from what was found.
  void GoOnInBestOrder(const SearchProblem& problem, double part, OfSize& found);
  void Keep(std::unique_ptr<PodProblem> pods, SearchProblem problem, OfSize found);
  absl::StatusOr<Strategy> Enlarged(const PodProblem& larger) const;
  SearchOptions OptionsOf(double part) const;

  const Evaluator& whole_;
  const GraphAt& graph_at_;
  const SearchFunction search_;
  const SearchOptions& options_;
  const bool is_part_;
  const PodScope scope_;
  const PlanClock clock_;
  absl::Status status_;               // why no pods have gone so far
  std::unique_ptr<PodProblem> pods_;  // null at first
  std::optional<SearchProblem> problem_;
  OfSize found_;
  std::vector<NamedStrategy> strategies_;
  int64_t evaluations_ = 0;
  bool is_far_behind_ = false;  // larger pods are not looked at
};

// Lets a search look for pods by `auto`, too (SearchProblem::by_pods), on machines of
// kLeastDevicesOfPods and more. The problem's evaluator outlives it.
void OfferPods(const GraphAt& graph_at, SearchProblem& problem);

}  // namespace partita

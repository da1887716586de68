#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "planner/plan_clock.h"
#include "planner/pod_planning.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// The name of what came from a strategy of a pod, as one of all devices: "data_parallel for pods of 8".
std::string NameForPods(const std::string& name, Pods pods);

// Searches for the best strategy of a pod: of small pods first, then of larger ones, which begin with
// what was found. Half of what is left of evaluations and time goes to each size but the last.
class PodSearch {
 public:
  // All outlive the search. The options' limits are for all sizes together. `to_beat`: pods whose
  // best start takes much longer are not searched; kNoCutoff: all are.
  PodSearch(const Evaluator& whole, const GraphAt& graph_at, SearchFunction search,
            const SearchOptions& options, Nanos to_beat = kNoCutoff)
      : whole_(whole),
        graph_at_(graph_at),
        search_(search),
        options_(options),
        to_beat_(to_beat),
        clock_(options.time_limit_seconds) {}

  // Has pods compared with buckets only where `has_buckets` says so of the tasks of all devices under
  // data parallelism; otherwise they always are.
  void SetHasBuckets(std::function<bool(int64_t tasks)> has_buckets) {
    has_buckets_ = std::move(has_buckets);
  }

  // Errors of searches where nothing was found; Declined where there are no pods.
  absl::Status Run();

  // Pods of the best, and what was found there. Precondition: Run was ok.
  const PodProblem& pods() const { return *pods_; }
  const SearchResult& found() const { return found_; }
  // The best of each size that was better than those before it, as strategies of all devices.
  std::vector<NamedStrategy> TakeStrategies() { return std::move(strategies_); }
  // Where the best came from, as a strategy of all devices.
  std::string OriginOfAll() const { return NameForPods(found_.origin, pods_->pods()); }
  int64_t evaluations() const { return evaluations_; }  // of all sizes

 private:
  bool IsOver() const;
  // The size of buckets that pods are compared with, as BucketBytesForSearches.
  Bytes BucketBytesFor(const PodProblem& pods) const;
  // Whether the best start of pods is far from what is to be beaten.
  bool IsFarBehind(const SearchProblem& problem);
  absl::Status SearchSize(int size, bool is_last);
  void Keep(std::unique_ptr<PodProblem> pods, SearchResult found);
  absl::StatusOr<Strategy> Enlarged(const PodProblem& larger) const;
  SearchOptions OptionsOf(double part) const;

  const Evaluator& whole_;
  const GraphAt& graph_at_;
  const SearchFunction search_;
  const SearchOptions& options_;
  const Nanos to_beat_;
  const PlanClock clock_;
  std::function<bool(int64_t tasks)> has_buckets_;
  absl::Status status_;               // why no pods have gone so far
  std::unique_ptr<PodProblem> pods_;  // null at first
  SearchResult found_;
  std::vector<NamedStrategy> strategies_;
  int64_t evaluations_ = 0;
  bool is_hopeless_ = false;  // larger pods are not looked at
};

// Lets a search look for pods by `auto`, too (SearchProblem::by_pods), on machines of
// kLeastDevicesOfPods and more. The problem's evaluator outlives it.
void OfferPods(const GraphAt& graph_at, SearchProblem& problem);

}  // namespace partita

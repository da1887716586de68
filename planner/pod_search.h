#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "planner/pod_planning.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// Searches for the best strategy of a pod: of small pods first, then of larger ones, which begin with
// what was found. Half of what is left of evaluations and time goes to each size but the last.
class PodSearch {
 public:
  // All outlive the search. The options' limits are for all sizes together. `to_beat`: pods whose
  // best start takes much longer are not searched; kNoCutoff: all are.
  PodSearch(const Evaluator& whole, const GraphAt& graph_at, SearchFunction search,
            const SearchOptions& options, Nanos to_beat = kNoCutoff)
      : whole_(whole), graph_at_(graph_at), search_(search), options_(options), to_beat_(to_beat) {}

  // Errors of searches where nothing was found; Declined where there are no pods.
  absl::Status Run();

  // Of the best, once Run was ok: its pods, and what was found there.
  const PodProblem& pods() const { return *pods_; }
  const SearchResult& found() const { return found_; }
  // The best of each size that was better than those before it, as strategies of all devices.
  std::vector<NamedStrategy> TakeStrategies() { return std::move(strategies_); }
  // Where the best came from, as a strategy of all devices: "data_parallel for pods of 8".
  std::string OriginOfAll() const;
  std::optional<Nanos> data_parallel() const { return data_parallel_; }
  int64_t evaluations() const { return evaluations_; }  // of all sizes

 private:
  double Seconds() const;
  bool IsOver() const;
  // Whether the best start of pods is far from what is to be beaten.
  bool IsFarBehind(const SearchProblem& problem);
  absl::Status SearchSize(int size, int parts);
  void Keep(std::unique_ptr<PodProblem> pods, SearchResult found);
  absl::StatusOr<Strategy> Enlarged(const PodProblem& larger) const;
  SearchOptions OptionsOf(int parts) const;

  const Evaluator& whole_;
  const GraphAt& graph_at_;
  const SearchFunction search_;
  const SearchOptions& options_;
  const Nanos to_beat_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  absl::Status status_;               // why no pods have gone so far
  std::unique_ptr<PodProblem> pods_;  // null at first
  SearchResult found_;
  std::vector<NamedStrategy> strategies_;
  std::optional<Nanos> data_parallel_;
  int64_t evaluations_ = 0;
  bool is_hopeless_ = false;  // larger pods are not looked at
};

// What a search for pods by `auto` finds; nothing where there are none (SearchProblem::by_pods).
SearchProblem::OfPods StrategiesOfPods(const Evaluator& whole, const GraphAt& graph_at,
                                       const SearchOptions& options, Nanos to_beat);

}  // namespace partita

#pragma once

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "planner/planner.h"
#include "tools/workflow/option_checks.h"
#include "tools/workflow/plan_contest.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/profiling/profiling.h"
#include "tools/workflow/search_log.h"

namespace partita {

struct MeasuredSearchRequest {
  MachineRequest machine;
  PlanRequest plan;
  // Seconds for measuring in all (on this host only): 0: price with what is known.
  double profile_seconds = 60;
  // Seconds for running the best plans and the experts in turn (on this host only), to choose the
  // one that is fastest: 0: by price.
  double measure_seconds = 0;
  std::function<void(size_t plans)> measure_progress = nullptr;  // ContestOptions::progress
  // Called as plan.options.progress is, with the evaluations after which the search ends.
  std::function<void(const SearchProgress&, int64_t evaluations)> progress = nullptr;
  ProfilingRequest profiling;  // stop and progress; the rest is filled in
  int rounds = 6;
  SearchLog* log = nullptr;  // log of the steps that the searches accept
};

// The option of profile_seconds.
inline Option ProfileTimeOption() {
  return {.name = "profile_time",
          .help = "seconds for measuring missing kernels; 0: none",
          .check = NumberFrom(0),
          .changes_plan = true};
}

// The option of measure_seconds; a negative number stands for none given: kMeasureSeconds, or none
// where nothing else is measured either.
inline constexpr double kMeasureSeconds = 30;
inline Option MeasureTimeOption() {
  return {.name = "measure_time",
          .help =
              "seconds for running the best plans in turn and choosing the fastest, on this "
              "machine; 0: choose by price",
          .check = NumberFrom(0),
          .unset = "-1",
          .fallback = "30; with --profile_time 0 none",
          .changes_plan = true};
}

struct MeasuredSearch {
  PricedMachine priced;
  PlanOutcome outcome;
  int64_t measured = 0;     // kernels and moves measured during the search
  Disturbance disturbance;  // work of other processes meanwhile
  bool complete =
      true;  // every task of the plan is priced by measurement, or nothing can be measured
  std::optional<ContestReport> contest;
};

// Plans are only as good as their prices: a search likes what its model underrates. So the search
// alternates with measuring: first the experts' kernels and as many others as half the time allows;
// then, round by round, the kernels of the plan that was found, until all of them are measured or
// the time is up. Every round begins from the experts and from the plan of the round before, priced
// by all that is known then: the outcome is priced by `priced`, by which no expert's plan is
// faster, however the search ended. Then plans are run and the fastest is taken (HoldContest).
absl::StatusOr<MeasuredSearch> SearchAndMeasure(const Graph& graph,
                                                const MeasuredSearchRequest& request);

}  // namespace partita

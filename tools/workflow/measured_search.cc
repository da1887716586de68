#include "tools/workflow/measured_search.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "tools/workflow/plan_pricing.h"

namespace partita {
namespace {

absl::StatusOr<PlanOutcome> PlanOn(const Graph& graph, const PricedMachine& priced,
                                   const PlanRequest& request) {
  const Doing doing("searching");
  const Evaluator evaluator = EvaluatorOn(priced, graph);
  auto outcome = MakePlan(evaluator, request);
  if (!absl::IsFailedPrecondition(outcome.status())) return outcome;
  const bool searches = request.strategy.empty();
  return WithMessage(outcome.status(), absl::StrCat(searches ? "search '" : "strategy '",
                                                    searches ? request.search : request.strategy,
                                                    "' declines: ", outcome.status().message()));
}

// What was spent on the rounds before.
void AddRounds(const PlanOutcome& before, PlanOutcome& outcome) {
  outcome.search.evaluations += before.search.evaluations;
  outcome.search.accepted += before.search.accepted;
  outcome.search.seconds += before.search.seconds;
  outcome.plan.provenance.evaluations = outcome.search.evaluations;
}

absl::StatusOr<MeasuredSearch> SearchAndProfile(const Graph& graph,
                                                const MeasuredSearchRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  auto seconds_left = [&] {
    return request.profile_seconds -
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  MeasuredSearch search;
  MachineRequest machine = request.machine;
  machine.will_measure = request.profile_seconds > 0;
  ASSIGN_OR_RETURN(search.priced, PriceMachine(machine));
  const bool measures = search.priced.is_local && request.profile_seconds > 0;
  ProfilingRequest profiling = request.profiling;
  profiling.profile = request.machine.profile;
  profiling.foreign_profile = request.machine.foreign_profile;
  if (measures) {
    profiling.seconds = request.profile_seconds / 2;
    ASSIGN_OR_RETURN(const ProfilingResult first,
                     ProfileForSearch(graph, search.priced, profiling));
    search.measured += first.measured;
    search.disturbance += first.disturbance;
    if (first.measured > 0) {
      ASSIGN_OR_RETURN(search.priced, PriceMachine(request.machine));
    }
  }
  for (int round = 0;; ++round) {
    PlanRequest plan = request.plan;
    plan.wants_rivals = request.measure_seconds > 0 && search.priced.is_local;
    if (round > 0)
      plan.starts.push_back({search.outcome.search.origin, search.outcome.plan.strategy});
    if (request.log != nullptr || request.progress) {
      const int64_t evaluations =
          OptionsOfSearch(plan, EvaluatorOn(search.priced, graph)).evaluations;
      plan.options.progress = [&request, round, evaluations](const SearchProgress& step) {
        if (request.log != nullptr) request.log->Add(round, step);
        if (request.progress) request.progress(step, evaluations);
        if (request.plan.options.progress) request.plan.options.progress(step);
      };
    }
    ASSIGN_OR_RETURN(PlanOutcome outcome, PlanOn(graph, search.priced, plan));
    if (round > 0) AddRounds(search.outcome, outcome);
    search.outcome = std::move(outcome);
    if (!measures || search.outcome.search.interrupted) return search;
    const bool last = round + 1 >= request.rounds || seconds_left() <= 0;
    profiling.seconds = last ? 0 : seconds_left();
    ASSIGN_OR_RETURN(
        const ProfilingResult more,
        ProfileSignatures(SignaturesOf(search.outcome.step.tasks), search.priced, profiling));
    search.measured += more.measured;
    search.disturbance += more.disturbance;
    search.complete = more.known + more.repeated == more.wanted;
    if (more.measured == 0) return search;
    ASSIGN_OR_RETURN(search.priced, PriceMachine(request.machine));
  }
}

}  // namespace

absl::StatusOr<MeasuredSearch> SearchAndMeasure(const Graph& graph,
                                                const MeasuredSearchRequest& request) {
  ASSIGN_OR_RETURN(MeasuredSearch search, SearchAndProfile(graph, request));
  const bool chooses = request.measure_seconds > 0 && search.priced.is_local &&
                       request.plan.strategy.empty() && !IsSet(request.plan.options.stop);
  if (!chooses) return search;
  const ContestOptions options{.seconds = request.measure_seconds,
                               .measuring = {.backends = request.machine.backends,
                                             .precision = search.priced.precision,
                                             .nondeterministic = search.priced.nondeterministic,
                                             .profile = request.machine.profile},
                               .stop = request.plan.options.stop,
                               .progress = request.measure_progress};
  ASSIGN_OR_RETURN(search.contest, HoldContest(graph, search.priced, options, search.outcome));
  return search;
}

}  // namespace partita

#include "tools/cli/planning.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "planner/search/search_algorithm.h"
#include "tools/cli/progress.h"
#include "tools/cli/text.h"
#include "tools/workflow/plan_pricing.h"
#include "tools/workflow/profiling/profiling.h"

namespace partita {
namespace {

// Shows how a search goes on; with --json_lines an event for each strategy that is better than all
// before.
std::function<void(const SearchProgress&, int64_t)> ShowsSearch(double time_limit) {
  return [time_limit, best = std::optional<Nanos>()](const SearchProgress& p,
                                                     int64_t evaluations) mutable {
    const std::string of = evaluations > 0 ? absl::StrCat(" of ", evaluations) : "";
    ShowProgress(absl::StrFormat("searching: %d%s strategies, best %s (gap %.1f %%)", p.evaluations,
                                 of, TimeText(p.best), 100 * GapOf(p.best, p.bound)),
                 {.of = "search",
                  .done = static_cast<double>(p.evaluations),
                  .wanted = static_cast<double>(std::max(evaluations, p.evaluations)),
                  .limit_seconds = time_limit});
    if (best.has_value() && p.best >= *best) return;
    best = p.best;
    Emit("candidate", {{"evaluations", p.evaluations},
                       {"start", p.start_name},
                       {"move", p.move},
                       {"predicted_ns", p.best.value()}});
  };
}

// What is wrong with a flag that only some searches have.
absl::Status CheckOption(const std::string& search, const char* flag, bool SearchRow::* has) {
  std::vector<std::string> with;
  for (const SearchRow& row : SearchAlgorithms()) {
    if (row.*has) with.push_back(row.name);
  }
  if (std::find(with.begin(), with.end(), search) != with.end()) return absl::OkStatus();
  return UsageError(absl::StrCat(flag, " is of --search ", absl::StrJoin(with, ", "),
                                 "; the search is ", search, ". Try --search ", with[0],
                                 ", or leave ", flag, " out"));
}

}  // namespace

absl::Status CheckSearchOptions(const PlanRequest& request) {
  const SearchOptions defaults;
  const SearchOptions& given = request.options;
  if (given.beta != defaults.beta) {
    RETURN_IF_ERROR(CheckOption(request.search, "--beta", &SearchRow::has_beta));
  }
  if (given.random_starts == defaults.random_starts) return absl::OkStatus();
  return CheckOption(request.search, "--random_starts", &SearchRow::has_random_starts);
}

absl::StatusOr<MeasuredSearch> SearchOnMachine(const MachineRequest& machine, const Graph& graph,
                                               const PlanRequest& plan, MeasuringTime time,
                                               Stages* stages) {
  MeasuredSearchRequest request;
  request.machine = machine;
  request.plan = plan;
  request.profile_seconds = time.profile;
  request.measure_seconds = time.measure;
  request.measure_progress = [time](size_t plans) {
    ShowProgress(absl::StrCat("measuring ", plans, " plans in turn"),
                 {.of = "contest", .wanted = 1, .limit_seconds = time.measure});
  };
  request.profiling.stop = &g_interrupted;
  request.profiling.progress = [time](int64_t done, int64_t wanted, const std::string& what) {
    // Half the time is for the first round.
    ShowProfiling(done, wanted, what, time.profile / 2);
  };
  request.plan.options.progress = nullptr;
  request.progress = ShowsSearch(plan.options.time_limit_seconds);
  std::unique_ptr<SearchLog> log;
  if (stages != nullptr && stages->dumps()) {
    ASSIGN_OR_RETURN(log, SearchLog::Open(stages->PathOf("15_search.csv")));
    request.log = log.get();
  }
  ASSIGN_OR_RETURN(MeasuredSearch search, SearchAndMeasure(graph, request));
  EndProgress();
  if (log != nullptr && !log->status().ok()) {
    Say(absl::StrCat("note: the list of the search's steps ends early: ", log->status().message()));
  }
  if (search.measured > 0) {
    Say(absl::StrCat("profiled ", search.measured, " kernels and moves into ", machine.profile,
                     search.complete ? "" : " (time is up; the rest is estimated)"));
  }
  return search;
}

std::string PodsText(const Pods& pods) {
  return absl::StrCat(pods.count, " pods of ", pods.devices, " devices");
}

std::string PriceNote(const Plan& plan, const PlanOutcome& today, const PricedMachine& priced,
                      const MachineRequest& request) {
  std::string note;
  const std::string& own = plan.provenance.machine;
  const std::string plans = own.empty() ? "the machine that it was made for" : own;
  if (today.reordered) {
    const bool is_same = own == priced.machine->name;
    note = is_same
               ? "its order is for other tasks than its strategy has today (the strategy was "
                 "edited, or another version of the program made the plan); another order was "
                 "found"
               : absl::StrCat("its order is for the tasks that it has on ", plans,
                              "; for those on ", priced.machine->name, " another order was found");
  }
  const Nanos time = today.step.evaluation.time;
  if (!plan.prediction.has_value() || plan.prediction->time == time) return note;
  const Nanos said = plan.prediction->time;
  const bool alike = TimeText(said) == TimeText(time);
  absl::StrAppend(&note, note.empty() ? "" : "; ", "its file says ",
                  alike ? absl::StrCat(said.value(), " ns") : TimeText(said), ", today it takes ",
                  alike ? absl::StrCat(time.value(), " ns") : TimeText(time), ": ");
  if (!plan.order.has_value() && plan.priority.empty()) {
    absl::StrAppend(
        &note,
        "it names no order of its tasks and no algorithms of its collectives, which the "
        "prediction chose by price; as it is, it runs in the order of the model, and "
        "collectives go by size. Try partita plan without --time_limit, or with more "
        "memory");
  } else if (IsFor(plan, priced, request.machine)) {
    absl::StrAppend(&note, "the records in ", request.profile,
                    " are not those that it was priced by (does --profile or --backend differ?), "
                    "or the machine or the "
                    "program has changed");
  } else {
    absl::StrAppend(&note, "that was for ", plans, ", ", plan.topology.size(), " devices, ",
                    RowOf(plan.choices.precision).name,
                    plan.choices.nondeterministic ? ", nondeterministic" : "");
  }
  return note;
}

void ShowProfiling(int64_t done, int64_t wanted, const std::string& what, double seconds) {
  ShowProgress(absl::StrCat("profiling ", done, "/", wanted, " ", what),
               {.of = "profile",
                .done = static_cast<double>(done),
                .wanted = static_cast<double>(wanted),
                .limit_seconds = seconds});
}

PlanRequest WithProgress(PlanRequest request) {
  request.options.stop = &g_interrupted;
  request.options.progress = [shows = ShowsSearch(request.options.time_limit_seconds)](
                                 const SearchProgress& p) { shows(p, 0); };
  return request;
}

}  // namespace partita

#include "tools/cli/planning.h"

#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/status_macros.h"
#include "tools/cli/text.h"
#include "tools/workflow/plan_pricing.h"
#include "tools/workflow/profiling/profiling.h"

namespace partita {

absl::StatusOr<MeasuredSearch> SearchOnMachine(const MachineRequest& machine, const Graph& graph,
                                               const PlanRequest& plan, MeasuringTime time,
                                               Stages* stages) {
  MeasuredSearchRequest request;
  request.machine = machine;
  request.plan = plan;
  request.profile_seconds = time.profile;
  request.measure_seconds = time.measure;
  request.measure_progress = [](size_t plans) {
    ShowProgress(absl::StrCat("measuring ", plans, " plans in turn"));
  };
  request.profiling.stop = &g_interrupted;
  request.profiling.progress = [](int64_t done, int64_t wanted, const std::string& what) {
    ShowProgress(absl::StrCat("profiling ", done, "/", wanted, " ", what));
  };
  std::unique_ptr<SearchLog> log;
  if (stages != nullptr && stages->dumps()) {
    ASSIGN_OR_RETURN(log, SearchLog::Open(stages->PathOf("15_search.csv")));
    request.log = log.get();
  }
  ASSIGN_OR_RETURN(MeasuredSearch search, SearchAndMeasure(graph, request));
  EndProgress();
  if (log != nullptr && !log->status().ok()) {
    std::cerr << "note: the list of the search's steps ends early: " << log->status().message()
              << "\n";
  }
  if (search.measured > 0) {
    std::cerr << "profiled " << search.measured << " kernels and moves into " << machine.profile
              << (search.complete ? "" : " (time is up; the rest is estimated)") << "\n";
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
                    RowOf(plan.choices.precision).name);
  }
  return note;
}

PlanRequest WithProgress(PlanRequest request) {
  request.options.stop = &g_interrupted;
  request.options.progress = [](const SearchProgress& p) {
    ShowProgress(absl::StrFormat("searching: %d strategies, best %s, at least %s (gap %.1f %%)",
                                 p.evaluations, TimeText(p.best), TimeText(p.bound),
                                 100 * GapOf(p.best, p.bound)));
  };
  return request;
}

}  // namespace partita

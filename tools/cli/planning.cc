#include "tools/cli/planning.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "tools/cli/text.h"
#include "tools/workflow/profiling.h"

namespace partita {

absl::StatusOr<PricedMachine> ProfiledMachine(const MachineRequest& request, const Graph& graph,
                                              double seconds) {
  ASSIGN_OR_RETURN(PricedMachine priced, PriceMachine(request));
  if (!priced.is_local || seconds <= 0) return priced;
  ProfilingRequest profiling;
  profiling.profile = request.profile;
  profiling.seconds = seconds;
  profiling.foreign_profile = request.foreign_profile;
  profiling.stop = &g_interrupted;
  profiling.progress = [](int64_t done, int64_t wanted, const std::string& what) {
    ShowProgress(absl::StrCat("profiling ", done, "/", wanted, " ", what));
  };
  ASSIGN_OR_RETURN(const ProfilingResult result, ProfileForSearch(graph, priced, profiling));
  EndProgress();
  if (result.measured == 0) return priced;
  std::cerr << "profiled " << result.measured << " kernels and moves into " << request.profile
            << (result.complete ? "" : " (time is up; the rest is estimated)") << "\n";
  return PriceMachine(request);
}

PlanRequest RequestOf(const SearchFlags& flags, const std::string& strategy) {
  PlanRequest request;
  request.search = flags.search;
  request.strategy = strategy;
  request.options.evaluations = flags.evaluations;
  request.options.seed = flags.seed;
  request.options.time_limit_seconds = flags.time_limit;
  request.options.stop = &g_interrupted;
  request.options.progress = [](const SearchProgress& p) {
    ShowProgress(
        absl::StrCat("searching: ", p.evaluations, " strategies, best ", TimeText(p.best)));
  };
  return request;
}

}  // namespace partita

#pragma once

#include <string>

#include "planner/planner.h"
#include "tools/cli/verb.h"
#include "tools/workflow/measured_search.h"
#include "tools/workflow/stages.h"

namespace partita {

// Seconds for measuring on this host: MeasuredSearchRequest's.
struct MeasuringTime {
  double profile = 0, measure = 0;
};

// Searches on the machine, measuring on this host for at most that time; progress on stderr. Where
// stages are dumped, each accepted step is a row of 15_search.csv.
absl::StatusOr<MeasuredSearch> SearchOnMachine(const MachineRequest& machine, const Graph& graph,
                                               const PlanRequest& plan, MeasuringTime time,
                                               Stages* stages);

// Usage error where an option is given that the search does not have.
absl::Status CheckSearchOptions(const PlanRequest& request);

// The same request with progress on stderr that Ctrl-C ends.
PlanRequest WithProgress(PlanRequest request);

// Progress of profiling, which takes so many seconds at most.
void ShowProfiling(int64_t done, int64_t wanted, const std::string& what, double seconds);

// "512 pods of 8 devices".
std::string PodsText(const Pods& pods);

// Note for people on the price of a plan file, in one line: that an order was found again, that its
// file predicts another time and why that may be. Empty where the price is what the file says, and
// where it says nothing.
std::string PriceNote(const Plan& plan, const PlanOutcome& today, const PricedMachine& priced,
                      const MachineRequest& request);

}  // namespace partita

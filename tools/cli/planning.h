#pragma once

#include <string>

#include "planner/planner.h"
#include "tools/cli/verb.h"
#include "tools/workflow/measured_search.h"

namespace partita {

// Searches on the machine, measuring on this host for at most `profile_time` seconds; progress on
// stderr.
absl::StatusOr<MeasuredSearch> SearchOnMachine(const MachineRequest& machine, const Graph& graph,
                                               const PlanRequest& plan, double profile_time);

// A request with progress on stderr that Ctrl-C ends.
PlanRequest RequestOf(const SearchFlags& flags, const std::string& strategy);

}  // namespace partita

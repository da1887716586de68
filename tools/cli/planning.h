#pragma once

#include <string>

#include "planner/planner.h"
#include "tools/cli/verb.h"

namespace partita {

// The machine, after measuring for at most `seconds` what a search over the graph needs and the
// profile lacks (only on this host).
absl::StatusOr<PricedMachine> ProfiledMachine(const MachineRequest& request, const Graph& graph,
                                              double seconds);

// A request with progress on stderr that Ctrl-C ends.
PlanRequest RequestOf(const SearchFlags& flags, const std::string& strategy);

}  // namespace partita

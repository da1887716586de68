#pragma once

#include <functional>
#include <vector>

#include "planner/search/search_algorithm.h"

namespace partita {

// Strategies that put branches of a model side by side, as starts for searches that simulate. Chains of
// operators are split by sample over some of the devices, one after another, each on those devices
// where it ends first (earliest finish time: Topcuoglu, Hariri, Wu, IEEE TPDS 2002). How many devices
// each has is found first (critical path and area: Radulescu, van Gemund, ICPP 2001): one at first, then
// twice as many for that chain of the critical path which gains most for the area that it takes more.
// Of the steps on the way a few are placed, from one device each to as many as shorten the path; those
// that end before `most`. Times are additive costs (planner/search/additive_costs.h). Sums of gradients
// over pods run beside all else, and a chain goes where those of its device end first, too. All else is
// as in `base`, a start. None where the model has no branches, an operator does not fit one device, or
// `stop`, asked in between, was true.
std::vector<NamedStrategy> ListPlacements(const SearchProblem& problem, const Strategy& base,
                                          Nanos most, const std::function<bool()>& stop);

}  // namespace partita

#pragma once

#include <functional>
#include <vector>

#include "graph/support/worker_threads.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// Strategies that cost least by the additive model (AdditiveCosts), found by eliminating nodes and
// edges (MinimizeChoices), as starts for the searches that simulate. The space's operators choose
// among: the configurations that the starts have for operators like them, and of those on the first
// devices and on all devices by copies, split evenly as many ways as divide the devices, along at
// most two loops on more than 8 devices, the best by themselves. So what is found is least among
// these choices, by a cost that knows no overlap; communication counts in full, by half and not at
// all. Each time like operators (LikeClasses) share one choice, which is quick for any number of
// repeated blocks; and each chooses by itself, in which graphs that are not series-parallel are
// solved by fixing operators one after another. Weights lie where they are read. All else is as in
// `base`, a start. Empty where `stop`, asked in between by all the threads, was true.
std::vector<NamedStrategy> DynamicProgrammingStarts(const SearchProblem& problem,
                                                    const Strategy& base,
                                                    const std::function<bool()>& stop,
                                                    WorkerThreads& threads);

}  // namespace partita

#pragma once

#include <functional>
#include <vector>

#include "graph/support/worker_threads.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// Strategies that cost least by the additive model (AdditiveProgram), found by eliminating nodes
// and edges (MinimizeChoices), as starts for the searches that simulate: least among the program's
// candidates, by a cost that knows no overlap; communication counts in full, by half and not at
// all. Each time like operators share one choice; and each chooses by itself, in which graphs that
// are not series-parallel are solved by fixing operators one after another. All else is as in
// `base`, a start. Empty where `stop`, asked in between by all the threads, was true.
std::vector<NamedStrategy> DynamicProgrammingStarts(const SearchProblem& problem,
                                                    const Strategy& base,
                                                    const std::function<bool()>& stop,
                                                    WorkerThreads& threads);

}  // namespace partita

#pragma once

#include <string>

#include "graph/graph.h"
#include "graph/parallel/plan.h"
#include "planner/evaluator.h"
#include "tools/workflow/priced_machine.h"

namespace partita {

// Prices strategies and plans of the graph on the machine, with the partition choices of that
// machine. Graph and machine outlive the evaluator.
Evaluator EvaluatorOn(const PricedMachine& priced, const Graph& graph, bool limit_memory = true);

// Whether the plan was made for the machine that `machine` (a name or a file) asks for, in the
// precision that it is priced in: then what its file predicts is its price, unless prices have
// changed since. A plan that does not name its machine is recognised by its topology.
bool IsFor(const Plan& plan, const PricedMachine& priced, const std::string& machine);

}  // namespace partita

#include "tools/workflow/plan_pricing.h"

namespace partita {

Evaluator EvaluatorOn(const PricedMachine& priced, const Graph& graph, bool limit_memory) {
  return Evaluator(
      graph, priced.machine->topology, *priced.model,
      {.choices = DefaultChoices(priced), .sizes = SizesOn(priced), .limit_memory = limit_memory});
}

bool IsFor(const Plan& plan, const PricedMachine& priced, const std::string& machine) {
  const DeviceTopology& topology = priced.machine->topology;
  if (plan.choices.precision != priced.precision || plan.topology.size() != topology.size() ||
      plan.choices.nondeterministic != priced.nondeterministic) {
    return false;
  }
  return plan.provenance.machine == machine || plan.topology == topology;
}

}  // namespace partita

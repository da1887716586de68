#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/graph_copy.h"

namespace partita {

// Copies an operator of the copy's source in the form that takes the statistics that updates keep
// of its operands (FixedFormOf). False, and nothing is copied, where it has no such form or the
// model does not keep them.
absl::StatusOr<bool> CopyInFixedForm(const Graph& model, const Operator& op, GraphCopy& copy);

}  // namespace partita

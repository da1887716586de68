#pragma once

#include <string>

#include "graph/graph.h"

namespace partita {

// The graph for people to read and for tests to compare, one line for each weight, state and
// operator:
//
//   weight conv1.weight f32[64,3,11,11]
//   conv1 = conv2d stride=[4,4] ... (x f32[32,3,224,224], conv1.weight f32[64,3,11,11]) ->
//       conv1 f32[32,64,55,55]  rule (n,g*c,4oh-2:9,...)->(n,g*k,oh,ow)
//
// (an operator's line is not broken). Gradients are written "kind.dK", pieces of a decomposed layer
// end in "anchor NAME", updates in "update of NAME".
std::string GraphText(const Graph& graph);

// One operator's line, without its end.
std::string OperatorText(const Graph& graph, const Operator& op);

}  // namespace partita

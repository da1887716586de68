#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace partita {

// Classes of like anchors, numbered from 0 in the order of their first members; indexed by place in
// graph.anchors(). Like ones, and the operators that follow them, have equal attributes, passes,
// and kinds and types of inputs and outputs: a configuration that fits one fits all and makes the
// same kernels. So are the repeated blocks of a deep network and the unrolled steps of a recurrent
// one.
std::vector<int32_t> LikeClasses(const Graph& graph);
// Classes of anchors of one kind whose inputs and outputs are of equal kinds and types, whatever
// their attributes and what follows them: the slices of a sequence, step by step. Numbered and
// indexed in the same way. A configuration that fits one may not fit another.
std::vector<int32_t> ShapeClasses(const Graph& graph);

// The same, indexed by OpId; -1 for what is no anchor.
std::vector<int32_t> ByOperator(const Graph& graph, const std::vector<int32_t>& classes);

}  // namespace partita

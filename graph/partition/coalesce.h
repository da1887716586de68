#pragma once

#include "absl/container/inlined_vector.h"
#include "graph/box.h"

namespace partita {

// Boxes of one set of elements; mostly one.
using Boxes = absl::InlinedVector<Box, 1>;

// Joins disjoint boxes that touch: along the last dimension first, then along the one before, and
// so on. The boxes are a grid's cells, or are cut along a dimension alike wherever they agree in
// all dimensions before it; the result then depends only on the set that they cover. It is in
// row-major order of corners.
Boxes Coalesce(Boxes boxes);

// The same of any disjoint boxes: they are cut like that first.
Boxes CutAndCoalesce(const Boxes& boxes);

}  // namespace partita

#pragma once

#include "graph/collective/schedule.h"

namespace partita {

// All-reduce over k = options.colors trees of arity k at once, each for one k-th of the elements:
// up the tree with sums, down again with copies. Colour c has its root at rank floor(c*P/k); a
// rank's logical id in it is (rank - root) mod P and its parent is the rank with logical id (id -
// 1)/k. Where P mod k is 0 or 1, the inner nodes of different colours are different ranks, so that
// a rank receives at most about twice the elements: all of them from children in the one colour
// where it is an inner node, and one k-th from its parent in each colour. Rounds: 2 * height +
// segments - 1.
//
// Order of summation: a node folds its children and itself in ascending order of ranks; the root's
// sum is copied to all, so all ranks end with the same bits.
void WriteMulticolorTree(const Collective& collective, const ScheduleOptions& options,
                         ScheduleWriter& out);

// The rank at the root of a colour, a rank's parent in it (-1 for the root), and its distance from
// the root.
int TreeRoot(int ranks, int colors, int color);
int TreeParent(int ranks, int colors, int color, int rank);
int TreeLevel(int ranks, int colors, int color, int rank);

}  // namespace partita

#pragma once

#include "graph/collective/schedule.h"

namespace partita {

// All-reduce of ranks in several nodes (ScheduleOptions::nodes): the elements are cut into slices,
// as many as the smallest node has ranks, and in every node each slice has one rank that owns it,
// the node's first, second, .. Three parts: one round in which the ranks of a node reduce every
// slice into its owner; a ring all-reduce of each slice between its owners, all slices at once; one
// round in which owners give their slice to the ranks of their node. So between k nodes a node
// sends and receives 2(k-1)/k * total elements, however many ranks it has, where a ring over all of
// the n ranks takes 2(n-1)/n * total at best. All ranks together receive 2(n-1) * total, as with
// ring. One node: scatter_gather. One rank in every node: ring.
void WriteHierarchical(const Collective& collective, const ScheduleOptions& options,
                       ScheduleWriter& out);

}  // namespace partita

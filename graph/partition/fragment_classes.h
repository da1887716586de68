#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/partition/partition.h"

namespace partita {

// Decisions that the fragments of a graph follow from. A *decision* is the configuration of an
// anchor, which is decision a for graph.anchors()[a], or the layouts of a weight: decision anchors + w
// for graph.weights()[w].
struct FragmentDecisions {
  std::vector<int32_t> of_op;                   // indexed by OpId: the one that its parts follow
  std::vector<std::vector<int32_t>> of_layout;  // indexed by weight: those of its default layouts
  std::vector<std::vector<int32_t>> of_tensor;  // indexed by TensorId
};
FragmentDecisions FindFragmentDecisions(const Graph& graph);

// The weight that a persistent tensor or its next value belongs to, as a place in graph.weights(); -1
// for other tensors. Indexed by TensorId.
std::vector<int32_t> WeightOfTensors(const Graph& graph);
// The operators that take each weight's update layout, in order; indexed by place in graph.weights().
std::vector<std::vector<OpId>> UpdatesOfWeights(const Graph& graph);

// Classes of what has equal fragments under equal decisions, but for the ids of operators and
// tensors, and for control edges that placements of weights add (WeightPlacement::prefetch). The
// decisions of two members, in the order of FragmentDecisions, correspond. So are the blocks of a deep
// network and the steps of a recurrent one.
struct FragmentClasses {
  std::vector<int32_t> of_anchor;  // indexed by OpId; of others -1: with all that follow it
  std::vector<int32_t> of_weight;  // indexed by weight: its layouts, updates and stores
  // Indexed by weight: its updates and stores, under equal layouts instead of decisions.
  std::vector<int32_t> of_laid_out;
  std::vector<int32_t> of_tensor;  // indexed by TensorId
};
// Finds which fragments are alike; each that the host reads is alone in its class.
FragmentClasses FindFragmentClasses(const Graph& graph, const PartitionOptions& options,
                                    const FragmentDecisions& decisions);
// Everything alone in its class, with its own number.
FragmentClasses DistinctFragmentClasses(const Graph& graph);

}  // namespace partita

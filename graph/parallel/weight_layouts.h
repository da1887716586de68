#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/parallel/parts.h"
#include "graph/parallel/strategy.h"

namespace partita {

// Layouts of one weight, parameter and update, with the defaults filled in.
struct WeightLayouts {
  std::vector<PlacedBox> parameter;
  std::vector<PlacedBox> update;
  std::optional<int32_t> prefetch;  // prefetch distance, see WeightPlacement
};

// The one of graph.weight_readers() whose end opens the gather of what `reader`, one of them,
// reads: `prefetch` others lie between them. kNoOp: the gather is open from the start of the step.
OpId GatherOpener(const Graph& graph, OpId reader, int32_t prefetch);

// A layout without copies: cut along the longest dimension, as evenly as it goes, into as many
// pieces as there are devices or, where that is fewer, elements along it.
std::vector<PlacedBox> EvenShards(const Shape& shape, std::span<const DeviceId> devices);

// The layouts of graph.weights()[weight]. `parts` are the parts of every operator, by OpId (those
// of updates are not read). The default parameter layout is the union of what operators demand,
// where they demand it, maximal boxes only; regions that no operator demands go to the host device.
// A weight that only its update reads (running statistics) lives where the update's other inputs
// are wanted anyway.
WeightLayouts ResolveWeightLayout(const Graph& graph, const Strategy& strategy, size_t weight,
                                  std::span<const std::span<const Part>> parts);

// The operators whose parts that looks at.
std::vector<OpId> DecidingOperators(const Graph& graph, size_t weight);

}  // namespace partita

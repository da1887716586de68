#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/parallel/strategy.h"

namespace partita {

// The configurations that a search may give to the operators of a training graph on `devices`
// devices. All are valid (ValidateConfig, and every split product stays one interval for the
// operator and its helpers). Const functions may be called from several threads at once.
class SearchSpace {
 public:
  // The graph outlives the space.
  SearchSpace(const Graph& graph, int devices);

  const Graph& graph() const { return graph_; }
  int devices() const { return devices_; }

  // Mesh-shaped configurations of an anchor: every way to split up to `devices` ways over its
  // loops, on the devices d, d+1, ... from every multiple of the number of parts on, with replicas
  // where parts are fewer than devices. The finite set that an exhaustive search walks.
  const std::vector<ParallelConfig>& Candidates(OpId anchor) const;

  // Any configuration: like a candidate, or with random degrees on random devices in any order.
  ParallelConfig Random(OpId anchor, std::mt19937_64& random) const;

  // A strategy with Random everywhere.
  Strategy RandomStrategy(std::mt19937_64& random) const;

  // Whether the configuration fits the anchor and all operators anchored to it.
  bool Fits(OpId anchor, const ParallelConfig& config) const;

 private:
  std::vector<ParallelConfig> MeshConfigs(OpId anchor) const;

  const Graph& graph_;
  const int devices_;
  std::vector<std::vector<ParallelConfig>> candidates_;  // by OpId
  std::vector<std::vector<OpId>> followers_;             // by OpId: operators anchored to it
};

// A configuration for `anchor` that splits as `model` (of another operator) does: equal degrees on
// loops of equal name, and the same devices. nullopt if that does not fit.
std::optional<ParallelConfig> Transplant(const SearchSpace& space, OpId from,
                                         const ParallelConfig& model, OpId anchor);

}  // namespace partita

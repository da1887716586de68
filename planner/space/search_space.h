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
  // where parts are fewer than devices. The finite set that an exhaustive search walks; rebuilt by
  // each call, and large for many devices.
  std::vector<ParallelConfig> Candidates(OpId anchor) const;

  // Any configuration: any degrees, half of the time along one loop only; one time in four copied
  // to the devices that are left; three times in four on neighbouring devices as a candidate,
  // otherwise on random devices in any order, several parts on one at times.
  ParallelConfig Random(OpId anchor, std::mt19937_64& random) const;

  // A strategy with Random everywhere.
  Strategy RandomStrategy(std::mt19937_64& random) const;

  // Whether the configuration fits the anchor and all operators anchored to it.
  bool Fits(OpId anchor, const ParallelConfig& config) const;

 private:
  ParallelConfig Draw(OpId anchor, std::mt19937_64& random) const;

  const Graph& graph_;
  const int devices_;
  // Operators anchored to each OpId that split a product of loops, which may not stay one interval.
  // All others fit as soon as the anchor does.
  std::vector<std::vector<OpId>> doubtful_;
};

// A configuration under which `anchor` reads, element by element, what `from` leaves on each device
// under `model`: the same split of each dimension of the result, on the same devices. nullopt if
// there is none.
std::optional<ParallelConfig> WithSameResultSplit(const SearchSpace& space, OpId from,
                                                  const ParallelConfig& model, OpId anchor);

// A configuration under which every part of `anchor` finds its block of one operand where the
// operand's producer left it: where that splits what `anchor` sums over, so does this. nullopt if
// there is none, or if `from` does not produce an operand.
std::optional<ParallelConfig> WithProducersBlocks(const SearchSpace& space, OpId from,
                                                  const ParallelConfig& model, OpId anchor);

}  // namespace partita

#pragma once

#include <map>
#include <random>
#include <string>

#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"

namespace partita {

// Any valid strategy: every loop that splits, by any degree, reductions included; replicas; parts
// on any devices in any order, several on one; weights in any of the layouts (default, whole on one
// device, copies, shards, grids with overlapping copies) for parameters and updates, gathered once
// or for forward and backward apart.
Strategy RandomStrategy(const Graph& graph, int devices, std::mt19937_64& random);

// Random devices (mostly up to 6, sometimes up to 16), nodes, collectives, algorithm, fusion.
PartitionOptions RandomPartitionOptions(std::mt19937_64& random);

// Counts of what random pairs of graph and strategy contained.
struct StrategyCoverage {
  int pairs = 0;
  std::map<std::string, int> pairs_with;  // a feature ("uneven", "replica", ...) -> pairs
  // "conv2d.oh" -> operators whose parts differ along that loop; 0 where it was never split.
  std::map<std::string, int> splits;

  void Add(const Graph& graph, const Strategy& strategy, int devices);
  double Share(const std::string& feature) const;  // of the pairs
  std::string ToString() const;
};

}  // namespace partita

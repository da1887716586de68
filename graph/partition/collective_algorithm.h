#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/partition/partition.h"
#include "graph/task/task_graph.h"

namespace partita {

// Sources of the algorithm of a collective, first to last; an answer that does not do the
// collective counts for nothing.
struct AlgorithmSources {
  const std::string& chosen;  // the strategy's, or empty
  const AlgorithmRule& rule;  // may be null
  std::span<const int32_t> node_of_device;
};

// The algorithm of a task that has all but that; in the end the default by size. `replicas`: all
// groups that form the same sums, its own among them, or none: they get equal answers, so that
// their sums have one order of terms.
std::string ChooseAlgorithm(const CollectiveTask& task,
                            std::span<const std::vector<DeviceId>> replicas,
                            const AlgorithmSources& sources);

// The node of each of these devices, as PartitionOptions has them; empty where all are on one.
std::vector<int> NodesOf(const std::vector<DeviceId>& group,
                         std::span<const int32_t> node_of_device);

// An algorithm as a strategy names it: without the nodes of its ranks.
std::string WithoutNodes(const std::string& algorithm);
// Whether a task runs by the algorithm that a strategy names for it.
bool RunsBy(const CollectiveTask& task, const std::string& chosen);

}  // namespace partita

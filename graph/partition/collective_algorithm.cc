#include "graph/partition/collective_algorithm.h"

#include <algorithm>
#include <utility>

#include "graph/collective/algorithm_name.h"
#include "graph/collective/algorithms.h"

namespace partita {

std::vector<int> NodesOf(const std::vector<DeviceId>& group,
                         std::span<const int32_t> node_of_device) {
  std::vector<int> nodes;
  if (node_of_device.empty()) return nodes;
  for (DeviceId id : group) nodes.push_back(node_of_device[id.index()]);
  return nodes;
}

namespace {

// The nodes of the task's ranks; none where the ranks of its replicas are spread in another way.
std::vector<int> NodesFor(const CollectiveTask& task,
                          std::span<const std::vector<DeviceId>> replicas,
                          std::span<const int32_t> node_of_device) {
  std::vector<int> nodes = NodesOf(task.group, node_of_device);
  if (replicas.empty()) return nodes;
  const std::string text = NodesText(nodes);
  const bool alike = std::all_of(replicas.begin(), replicas.end(), [&](const auto& group) {
    return NodesText(NodesOf(group, node_of_device)) == text;
  });
  return alike ? nodes : std::vector<int>();
}

int64_t LargestBuffer(const Collective& collective) {
  int64_t elements = collective.total;
  for (int r = 0; r < collective.ranks; ++r) {
    elements = std::max(elements, SendElements(collective, r));
  }
  return elements;
}

}  // namespace

AlgorithmRule AlwaysBy(std::string algorithm) {
  return [algorithm = std::move(algorithm)](const CollectiveToRun&) { return algorithm; };
}

std::string ChooseAlgorithm(const CollectiveTask& task,
                            std::span<const std::vector<DeviceId>> replicas,
                            const AlgorithmSources& sources) {
  const std::vector<int> nodes = NodesFor(task, replicas, sources.node_of_device);
  const auto does = [&](const std::string& name) {
    return !name.empty() && CheckDoes(name, task.collective).ok();
  };
  const std::string chosen = ForNodes(sources.chosen, nodes);
  if (does(chosen)) return chosen;
  if (sources.rule) {
    const std::span<const std::vector<DeviceId>> own(&task.group, 1);
    const std::string answer = ForNodes(
        sources.rule({task.collective, task.dtype, replicas.empty() ? own : replicas}), nodes);
    if (does(answer)) return answer;
  }
  return DefaultAlgorithm(task.collective.kind, task.collective.ranks,
                          LargestBuffer(task.collective) * SizeOf(task.dtype), nodes);
}

std::string WithoutNodes(const std::string& algorithm) {
  return algorithm.substr(0, algorithm.find("(nodes="));
}

bool RunsBy(const CollectiveTask& task, const std::string& chosen) {
  return task.algorithm == chosen || WithoutNodes(task.algorithm) == chosen;
}

}  // namespace partita

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/pods.h"
#include "planner/evaluator.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// The training graph of a model at another batch.
using GraphAt = std::function<absl::StatusOr<Graph>(int64_t batch)>;

// Machines of more devices are searched by pods: each pod takes an equal share of the batch, and
// all go by the strategy that is best for one with what it exchanges with the others.
inline constexpr int kMostDevicesSearched = 64;
// Machines of fewer devices, down to these, are searched as a whole, from what pods are best at, too.
inline constexpr int kLeastDevicesOfPods = 16;

// Devices of the first node, which come first.
int DevicesOfFirstNode(const DeviceTopology& topology);

// Whether pods of so many devices have equal shares of devices and batch, and an evaluation is no
// longer than a search can afford.
bool IsPodSize(const Evaluator& whole, int size);

// Sizes of pods that a search looks at, one after another: the largest within a node, and up to
// kMostDevicesSearched devices those of four times the last or more. Divisors of the machine's
// devices that are IsPodSize.
std::vector<int> PodSizes(const Evaluator& whole);

// The first pod of a machine, as an evaluator sees it.
class PodProblem {
 public:
  // Pods of `size` devices, one of PodSizes. Errors as those of PodView::Create and StrategyOfPods.
  // The evaluator is the whole machine's, and outlives the problem.
  static absl::StatusOr<std::unique_ptr<PodProblem>> Create(const Evaluator& whole,
                                                            const GraphAt& graph_at, int size);

  Pods pods() const { return setting_->pods; }
  const Graph& graph() const { return graph_; }
  const Graph& built() const { return setting_->built; }
  const Evaluator& evaluator() const { return *evaluator_; }
  const Evaluator& whole() const { return whole_; }
  // The experts' strategies for a pod; if `has_fewer`, also those for fewer of its devices.
  SearchProblem Problem(bool has_fewer) const;
  // A pod's strategy as that of all pods.
  absl::StatusOr<Strategy> OfAllPods(const Strategy& strategy) const;
  // An evaluation of the first pod as one of all devices.
  Evaluation OfAllDevices(Evaluation first) const;

 private:
  PodProblem(const Evaluator& whole, Graph graph, DeviceTopology pod,
             std::shared_ptr<const PodSetting> setting);

  const Evaluator& whole_;
  const Graph graph_;
  const std::shared_ptr<const PodSetting> setting_;
  std::unique_ptr<const Evaluator> evaluator_;
};

}  // namespace partita

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "cost_model/cost_model.h"
#include "graph/parallel/device_topology.h"
#include "graph/parallel/pods.h"
#include "graph/partition/partition.h"
#include "graph/task/task_graph.h"
#include "planner/simulator/flat_tasks.h"

namespace partita {

// A step of many pods as the first pod sees it. Pods that behave alike do everything at the same
// time, so that the first one's tasks, with what all pods exchange, take as long as those of all:
// a machine of thousands of devices costs no more to simulate than a pod of it. Exact as long as the
// first pod has no part of its own, such as a sum that other pods send to one of its devices: where
// memory is used again, and for weights that are read elsewhere than they are summed, the other pods
// may be a little slower.
//
// Tasks are those of a few pods, `built` of them, in which an exchange of all pods has the form that
// it has in all: from three on, the number of pods changes its length only. May be used by several
// threads.
class PodView {
 public:
  // Pods whose tasks are built: enough for every form that exchanges have.
  static constexpr int kBuilt = 3;
  static int BuiltOf(Pods pods) { return std::min(pods.count, kBuilt); }

  // FailedPrecondition, which says why, where pods of the machine are not alike or have cores in
  // common. The model outlives the view. `rule`: by which collectives get their algorithms.
  static absl::StatusOr<std::unique_ptr<PodView>> Create(const SimulatedResources& machine,
                                                         Pods pods, const CostModel& model,
                                                         AlgorithmRule rule);

  Pods pods() const { return pods_; }
  int built() const { return BuiltOf(pods_); }

  // Whether all tasks are of the first pod, and of no other.
  bool IsInFirstPod(const TaskGraph& built) const;
  // The first pod's tasks, in their order.
  struct FirstPod {
    TaskGraph tasks;                       // over the same buffers; `devices` of them all
    std::vector<TaskCost> communications;  // prices of collectives and transfers, in their order
    std::vector<int32_t> numbers;          // of each built task among them; -1: not there
  };
  // `built`: the tasks, or those of a fragment, of the built pods. Unimplemented where the form of an
  // exchange between pods is not known.
  absl::StatusOr<FirstPod> FirstPodOf(const TaskGraph& built) const;
  // A communication of the built pods as the first pod's, with its price; nullopt: it has no part in
  // it. Unimplemented as FirstPodOf.
  struct Communication {
    TaskBody body;
    TaskCost cost;
  };
  absl::StatusOr<std::optional<Communication>> CommunicationOf(const TaskBody& built) const;
  // The rule for collectives inside the first pod, and none for others: the view chooses for those of
  // all pods. The view outlives what is returned.
  AlgorithmRule InsidePod(AlgorithmRule rule) const;
  // The rule by which the step of all devices has these algorithms: that of Create, asked once for
  // the collectives of all pods that are alike. The view outlives it.
  AlgorithmRule OfAllDevices() const;
  // Whether a resource is of the first pod's devices, or on their routes.
  bool IsOwn(int32_t resource) const { return is_own_[static_cast<size_t>(resource)]; }
  // Whether tasks of the first pod are to hold it: what is its own, and communication lanes of others,
  // but for channels that are free whenever such a lane is.
  bool IsHeld(int32_t resource) const { return is_held_[static_cast<size_t>(resource)]; }
  // Whether it is a channel on routes inside several pods. A task inside a pod that holds one would
  // wait for other pods' tasks: its step is not known.
  bool IsShared(int32_t resource) const { return is_shared_[static_cast<size_t>(resource)]; }
  const std::string& name(int32_t resource) const { return machine_.name(resource); }

 private:
  PodView(const SimulatedResources& machine, Pods pods, const CostModel& model, AlgorithmRule rule);

  absl::Status CheckAlike() const;
  absl::Status FindShared();
  void FindOwn();
  void FindHeld();
  void DropImplied();
  void AddChannels(DeviceId from, DeviceId to, std::vector<int32_t>& resources) const;
  int PodOf(DeviceId device) const { return device.value() / pods_.devices; }

  // A task of the first pod; nullopt: it has no part in it.
  absl::StatusOr<std::optional<TaskBody>> Seen(const TaskBody& body) const;
  template <class OneDeviceTask>
  absl::StatusOr<std::optional<TaskBody>> Seen(const OneDeviceTask& task) const;
  absl::StatusOr<std::optional<TaskBody>> Seen(const CollectiveTask& task) const;
  absl::StatusOr<std::optional<TaskBody>> Seen(const TransferTask& task) const;
  absl::StatusOr<CollectiveTask> OfAllPods(const CollectiveTask& task) const;
  // Chooses the algorithm, as ChooseAlgorithm does.
  void ChooseFor(CollectiveTask& task) const;
  std::string InItsPod(const CollectiveToRun& asked) const;
  TaskCost PriceOf(const TaskBody& body) const;

  const SimulatedResources& machine_;
  const Pods pods_;
  const CostModel& model_;
  const AlgorithmRule rule_;
  std::vector<int32_t> node_of_device_;
  std::vector<bool> is_own_, is_held_, is_shared_;  // indexed by resource
  // Numbers that say what a collective of all pods takes: kind, element type, reduction, elements,
  // routes, and the ranks that have blocks.
  using Key = std::vector<int64_t>;
  Key KeyOf(const CollectiveTask& task, int64_t elements) const;
  // A number of the routes between the group's devices of the first two pods.
  int32_t RoutesOf(const CollectiveTask& task) const;
  mutable std::mutex mutex_;  // guards what follows
  // Keyed by the group's devices of the first pod.
  mutable absl::flat_hash_map<std::vector<DeviceId>, int32_t> routes_of_group_;
  // Keyed by the speeds and latencies of the routes' channels.
  mutable absl::flat_hash_map<Key, int32_t> numbers_of_routes_;
  // Keyed by KeyOf, at the elements that algorithms are compared at, and at its own.
  mutable absl::flat_hash_map<Key, std::string> algorithms_;
  // Keyed by what a rule is asked inside a pod.
  mutable absl::flat_hash_map<Key, std::string> algorithms_inside_;
  mutable absl::flat_hash_map<Key, TaskCost> prices_;
};

}  // namespace partita

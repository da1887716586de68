#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/parallel/parts.h"
#include "graph/parallel/weight_layouts.h"
#include "graph/partition/fragment.h"
#include "graph/task/task_graph.h"

namespace partita {

// Fragments of the first of several alike pods (PartitionOptions::pod_devices): what is made for all of
// them, cut down to it.

// Parts on its devices, in their order.
std::vector<Part> PartsOfFirstPod(std::span<const Part> parts, int pod_devices);
WeightLayouts LayoutsOfFirstPod(const WeightLayouts& layouts, int pod_devices);

// Whether no element of the tensor goes from one pod to another, so that the exchange in the first pod
// is the same without the others: pods make and read other elements along one dimension, as those of
// different samples; or every device reads what it has. `setting`: with what the first pod has.
bool StaysInPods(const Graph& graph, const Tensor& tensor, PartsByOp parts,
                 const TensorSetting& setting, int pod_devices);

// The tasks of an exchange in which the first pod takes part, over the buffers of its devices.
struct FirstPodTasks {
  TaskGraph graph;
  std::vector<BufferId> buffers;  // indexed by BufferId before; kNoBuffer: of another pod
};
// Collectives and transfers keep their devices; what they send or receive in other pods has no buffer.
// `graph`: without kernels, dependencies or outputs.
FirstPodTasks TasksOfFirstPod(const TaskGraph& graph, int pod_devices);

}  // namespace partita

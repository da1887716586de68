#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/device_topology.h"
#include "graph/parallel/strategy.h"
#include "planner/search/search_algorithm.h"

namespace partita {

// Strategies that people use, for any model. FailedPrecondition with the reason where one makes no
// sense for the graph or the machine.
using ExpertFunction = absl::StatusOr<Strategy> (*)(const Graph&, const DeviceTopology&);

absl::StatusOr<Strategy> SingleDeviceExpert(const Graph& graph, const DeviceTopology& topology);
absl::StatusOr<Strategy> DataParallel(const Graph& graph, const DeviceTopology& topology);
// Krizhevsky 2014, scheme (a): convolutions by sample, fully connected layers by output channel,
// the loss by sample; a fully connected layer with fewer outputs than devices by sample too.
absl::StatusOr<Strategy> OneWeirdTrick(const Graph& graph, const DeviceTopology& topology);
// Scheme (b): as (a), the fully connected layers once for each device's samples.
absl::StatusOr<Strategy> OneWeirdTrickRounds(const Graph& graph, const DeviceTopology& topology);
absl::StatusOr<Strategy> ModelParallel(const Graph& graph, const DeviceTopology& topology);
absl::StatusOr<Strategy> Spatial(const Graph& graph, const DeviceTopology& topology);
absl::StatusOr<Strategy> OperatorPlacement(const Graph& graph, const DeviceTopology& topology);
// Wu et al. 2016, as FlexFlow's paper describes it: the batch split over nodes; in each node layers
// of one depth on one device. Declines without recurrent layers.
absl::StatusOr<Strategy> RnnPlacement(const Graph& graph, const DeviceTopology& topology);
absl::StatusOr<Strategy> RnnStages(const Graph& graph, const DeviceTopology& topology);
// Shoeybi et al. 2019: MLPs and attention by column, then by row, over all devices; where widths and
// heads divide evenly, and products are most of the work.
absl::StatusOr<Strategy> Megatron(const Graph& graph, const DeviceTopology& topology);
// Megatron on groups of neighbouring devices of a node, as many as divide what there is to split,
// and the batch over the groups.
absl::StatusOr<Strategy> DataTensor(const Graph& graph, const DeviceTopology& topology);
// Products over grids of two and three axes (tensor_grids.cc), weights in blocks over the grid.
absl::StatusOr<Strategy> Tensor2d(const Graph& graph, const DeviceTopology& topology);
absl::StatusOr<Strategy> Tensor25d(const Graph& graph, const DeviceTopology& topology);
absl::StatusOr<Strategy> Tensor3d(const Graph& graph, const DeviceTopology& topology);
// Every operator's channels on devices so that work is balanced to 5 % and the connectivity of what
// they send minus one is small (hypergraph/partitioner.h). Declines where blocks of channels are too
// large for that balance.
absl::StatusOr<Strategy> HypergraphPlacement(const Graph& graph, const DeviceTopology& topology);
// Data parallelism with gradients and optimizer states in shards over the devices (ZeRO stage 2), or
// with parameters too, gathered before use in forward and again in backward (stage 3).
absl::StatusOr<Strategy> Zero2(const Graph& graph, const DeviceTopology& topology);
absl::StatusOr<Strategy> Zero3(const Graph& graph, const DeviceTopology& topology);

struct ExpertRow {
  const char* name;
  ExpertFunction make;
  const char* description;
  // Whether searches try it on a part of the devices, too (ExpertsOnFewer, ExpertStartsOfPod).
  bool on_part = true;
};
// THE table of expert strategies.
std::span<const ExpertRow> ExpertStrategies();
// NotFound lists the valid names.
absl::StatusOr<ExpertFunction> ExpertNamed(const std::string& name);

// Every expert that does not decline, in table order: the starts of a search.
std::vector<NamedStrategy> ExpertStarts(const Graph& graph, const DeviceTopology& topology);
// Starts of a search for one of several alike groups of devices.
std::vector<NamedStrategy> ExpertStartsOfPod(const Graph& graph, const DeviceTopology& pod);
// The strategies of named experts for the first devices of the topology; nullopt where no expert of
// that name is for fewer devices, or it declines (SearchProblem::on_fewer). Each is made once and kept. What is passed
// outlives the function, which is not for several threads.
std::function<std::optional<Strategy>(const std::string& name, int devices)> ExpertsOnFewer(
    const Graph& graph, const DeviceTopology& topology);

}  // namespace partita

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "graph/graph.h"
#include "graph/parallel/parallel_config.h"
#include "graph/parallel/strategy.h"

namespace partita {

// Devices in a grid of several axes, in row-major order of their coordinates; a device may be at
// several places.
struct DeviceMesh {
  std::vector<int32_t> extents;
  std::vector<DeviceId> devices;
};

// The same places with the axes in another order: axis k is the given one's order[k].
DeviceMesh WithAxes(const DeviceMesh& mesh, std::span<const size_t> order);

// Splits by axis of a mesh: the loop of an operator, or the dimension of a tensor, that the axis
// splits; kCopies: none, the pieces along the axis are equal.
inline constexpr int kCopies = -1;
using AxisSplits = absl::InlinedVector<int, 3>;

// The product of the axes that split this, the ways that it is cut.
int64_t WaysOf(const DeviceMesh& mesh, const AxisSplits& splits, int what);

// The configuration in which the part at each place of the mesh has the block that its coordinates
// say: of a loop that several axes split the leading axis chooses first. Takes time in proportion
// to the devices.
ParallelConfig OverMesh(const ShardingRule& rule, const DeviceMesh& mesh, const AxisSplits& loops);

// Whether every loop is as long as the ways that the axes cut it, and may be cut.
bool HasRoom(const ShardingRule& rule, const DeviceMesh& mesh, const AxisSplits& loops);
// Whether all blocks are of equal sizes, too.
bool IsEven(const ShardingRule& rule, const DeviceMesh& mesh, const AxisSplits& loops);

// A layout that cuts a tensor's dimensions as the axes say: a box at each place of the mesh, equal
// ones along an axis that cuts none.
std::vector<PlacedBox> BoxesOverMesh(const Shape& shape, const DeviceMesh& mesh,
                                     const AxisSplits& dims);

// How the axes split operand `operand` if they split the dimensions of its tensor as given: the
// first loop of the dimension, kCopies where it has none that may be cut.
AxisSplits LoopsOfOperand(const ShardingRule& rule, size_t operand, const AxisSplits& dims);
// How the axes split the dimensions of a result; kCopies for an axis that splits what is summed.
AxisSplits DimsOfResult(const ShardingRule& rule, size_t result, const AxisSplits& loops);

}  // namespace partita

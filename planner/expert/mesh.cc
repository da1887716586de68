#include "planner/expert/mesh.h"

#include <algorithm>

#include "graph/support/check.h"

namespace partita {
namespace {

// Calls visit(place, coordinates) for every place of a mesh, in row-major order.
template <class Visit>
void ForEachPlace(const DeviceMesh& mesh, Visit&& visit) {
  std::vector<int32_t> at(mesh.extents.size(), 0);
  for (size_t place = 0; place < mesh.devices.size(); ++place) {
    visit(place, at);
    for (size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < mesh.extents[axis]) break;
      at[axis] = 0;
    }
  }
}

// The block of `what` at a place: mixed radix of the coordinates of its axes.
int64_t BlockAt(const DeviceMesh& mesh, const AxisSplits& splits, int what,
                const std::vector<int32_t>& at) {
  int64_t block = 0;
  for (size_t axis = 0; axis < splits.size(); ++axis) {
    if (splits[axis] == what) block = block * mesh.extents[axis] + at[axis];
  }
  return block;
}

int FirstLoopToSplit(const ShardingRule& rule, const DimMap& map) {
  for (int8_t loop : map.loops) {
    const LoopDim& dim = rule.loops[static_cast<size_t>(loop)];
    if (dim.splittable && dim.extent > 1) return loop;
    if (dim.extent > 1) break;
  }
  return kCopies;
}

}  // namespace

DeviceMesh WithAxes(const DeviceMesh& mesh, std::span<const size_t> order) {
  DeviceMesh reordered{{}, std::vector<DeviceId>(mesh.devices.size())};
  for (size_t axis : order) reordered.extents.push_back(mesh.extents[axis]);
  ForEachPlace(mesh, [&](size_t place, const std::vector<int32_t>& at) {
    size_t there = 0;
    for (size_t axis : order) {
      there = there * static_cast<size_t>(mesh.extents[axis]) + static_cast<size_t>(at[axis]);
    }
    reordered.devices[there] = mesh.devices[place];
  });
  return reordered;
}

int64_t WaysOf(const DeviceMesh& mesh, const AxisSplits& splits, int what) {
  int64_t ways = 1;
  for (size_t axis = 0; axis < splits.size(); ++axis) {
    if (splits[axis] == what) ways *= mesh.extents[axis];
  }
  return ways;
}

ParallelConfig OverMesh(const ShardingRule& rule, const DeviceMesh& mesh, const AxisSplits& loops) {
  CHECK(loops.size() == mesh.extents.size()) << "a split for each axis";
  ParallelConfig config;
  config.replicas = static_cast<int32_t>(WaysOf(mesh, loops, kCopies));
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    config.degrees.push_back(static_cast<int32_t>(WaysOf(mesh, loops, static_cast<int>(l))));
  }
  config.devices.resize(mesh.devices.size());
  ForEachPlace(mesh, [&](size_t place, const std::vector<int32_t>& at) {
    int64_t part = BlockAt(mesh, loops, kCopies, at);
    for (size_t l = 0; l < rule.loops.size(); ++l) {
      part = part * config.degrees[l] + BlockAt(mesh, loops, static_cast<int>(l), at);
    }
    config.devices[static_cast<size_t>(part)] = mesh.devices[place];
  });
  return config;
}

bool HasRoom(const ShardingRule& rule, const DeviceMesh& mesh, const AxisSplits& loops) {
  return std::all_of(loops.begin(), loops.end(), [&](int loop) {
    if (loop == kCopies) return true;
    const LoopDim& dim = rule.loops[static_cast<size_t>(loop)];
    return dim.splittable && dim.extent >= WaysOf(mesh, loops, loop);
  });
}

bool IsEven(const ShardingRule& rule, const DeviceMesh& mesh, const AxisSplits& loops) {
  return HasRoom(rule, mesh, loops) && std::all_of(loops.begin(), loops.end(), [&](int loop) {
           if (loop == kCopies) return true;
           return rule.loops[static_cast<size_t>(loop)].extent % WaysOf(mesh, loops, loop) == 0;
         });
}

std::vector<PlacedBox> BoxesOverMesh(const Shape& shape, const DeviceMesh& mesh,
                                     const AxisSplits& dims) {
  std::vector<PlacedBox> boxes;
  ForEachPlace(mesh, [&](size_t place, const std::vector<int32_t>& at) {
    Box box = Box::Full(shape);
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t ways = WaysOf(mesh, dims, static_cast<int>(d));
      const int64_t block = BlockAt(mesh, dims, static_cast<int>(d), at);
      box[static_cast<int>(d)] = BlockOf(shape[d], ways, block);
    }
    boxes.push_back({box, mesh.devices[place]});
  });
  return boxes;
}

AxisSplits LoopsOfOperand(const ShardingRule& rule, size_t operand, const AxisSplits& dims) {
  const std::vector<DimMap>& maps = rule.operands[operand].dims;
  AxisSplits loops;
  for (int d : dims) {
    const bool known = d != kCopies && static_cast<size_t>(d) < maps.size();
    loops.push_back(known ? FirstLoopToSplit(rule, maps[static_cast<size_t>(d)]) : kCopies);
  }
  return loops;
}

AxisSplits DimsOfResult(const ShardingRule& rule, size_t result, const AxisSplits& loops) {
  const std::vector<DimMap>& maps = rule.results[result].dims;
  AxisSplits dims;
  for (int loop : loops) {
    const auto found = std::find_if(maps.begin(), maps.end(), [&](const DimMap& map) {
      return std::find(map.loops.begin(), map.loops.end(), loop) != map.loops.end();
    });
    dims.push_back(found == maps.end() ? kCopies : static_cast<int>(found - maps.begin()));
  }
  return dims;
}

}  // namespace partita

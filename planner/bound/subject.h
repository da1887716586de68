#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/graph.h"
#include "graph/partition/partition.h"
#include "planner/evaluator.h"

namespace partita {

// The operators that an operator's kernels may be fused with.
struct FusionFate {
  OpId epilogue = kNoOp;        // it may be applied by the operator's kernels
  bool is_epilogue = false;     // the kernels of what it reads may apply it
  OpId takes = kNoOp;           // it may be done first by the operator's kernels
  OpId taken_by = kNoOp;        // the kernels of that operator may do this one first
  OpId update = kNoOp;          // it may be done by the kernels of this gradient
  bool may_be_updated = false;  // this update may be done by a gradient's kernels
  bool is_unknown = false;      // fused in ways that are not looked at: kernels may take nothing
};

// The least time to bring elements to a device that another one has.
struct LeastDelivery {
  double latency = 0;         // nanoseconds
  double nanos_per_byte = 0;  // over all channels that end at a device
};

// The step of a graph on a machine, of which a lower bound is sought.
struct BoundSubject {
  const Graph& graph;
  const CostModel& model;
  PartitionOptions options;
  std::vector<DeviceId> kinds;    // devices, one of each of which prices are equal
  std::vector<FusionFate> fates;  // indexed by OpId
  LeastDelivery delivery;
  int at_once = 1;  // the most devices that can compute at once: those that share cores take turns
  // Splits into up to so many parts are all looked at.
  int64_t most_parts = 0;
  // Says whether to give up; may be empty.
  std::function<bool()> interrupted;
};

// The evaluator outlives the subject.
BoundSubject BoundSubjectOf(const Evaluator& evaluator, int64_t most_parts,
                            std::function<bool()> interrupted);

// Whether the operator's unsplit part has every element of an output.
bool MakesAllOf(const Graph& graph, const Operator& op, size_t output);

}  // namespace partita

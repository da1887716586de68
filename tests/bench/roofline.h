#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/machine.h"
#include "graph/graph.h"
#include "graph/precision.h"
#include "graph/task/kernel_signature.h"

namespace partita {

// Time that a device's peaks leave a kernel of the cuda backend: of its arithmetic, and of the bytes
// that it has to move at least. Nothing of it is measured or reckoned with a share of the peak.
struct RooflineRow {
  std::string task;      // its name in timelines
  std::string work;      // operators and passes
  int64_t launches = 0;  // of its plan, at least
  int64_t flops = 0;     // a multiply-add is two
  int64_t bytes = 0;     // operands and results once each, and those of scratch memory
  int64_t of_scratch =
      0;  // those of `bytes` to and from scratch memory: conversions between types,
          // and what fused operators hand to each other
  double arithmetic_us = 0, memory_us = 0;
  double priced_us = 0;  // what the planner reckons with, which knows shares of the peaks

  // Operations for each byte.
  double intensity() const;
  bool bound_by_memory() const { return memory_us > arithmetic_us; }
  double roof_us() const { return bound_by_memory() ? memory_us : arithmetic_us; }
};

// `task` is left empty. Unimplemented where the backend has no such kernel.
absl::StatusOr<RooflineRow> RooflineOf(const KernelSignature& signature, const DeviceClass& device);

// The kernels of a training step on one device of a machine, in the canonical order, products in
// `precision`.
absl::StatusOr<std::vector<RooflineRow>> RooflineOfStep(const Graph& graph, const Machine& machine,
                                                        Precision precision);

// Microseconds of a step's tasks by name, as a report of the GPU suite has them (tests/gpu_reports/,
// section alexnet).
struct MeasuredStep {
  double step_us = 0;
  std::map<std::string, double> task_us;
};
// NotFound if the report has no run of that batch and precision; InvalidArgument if it is none.
absl::StatusOr<MeasuredStep> ReadMeasuredStep(const std::string& path, int64_t batch,
                                              Precision precision);

// A step in one precision.
struct StepRoofline {
  Precision precision = Precision::kFloat32;
  std::vector<RooflineRow> rows;
  std::optional<MeasuredStep> measured;
};

// A table in Markdown of the kernels of one step in several precisions, at least one, and their
// sums: times at the roof with what binds them, and measured times with their ratio to the roof.
std::string RooflineTable(const std::vector<StepRoofline>& steps);

// The sum of all rows' roofs, of those bound by memory, and of what the planner reckons with.
struct RooflineSum {
  int64_t launches = 0, flops = 0, bytes = 0;
  double roof_us = 0, memory_bound_us = 0, priced_us = 0;
};
RooflineSum SumOf(const std::vector<RooflineRow>& rows);

// The tasks of a measured step that lose the most time against their roof, at most `count`, as lines
// of Markdown.
std::string FurthestFromTheRoof(const StepRoofline& step, size_t count);

}  // namespace partita

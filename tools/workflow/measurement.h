#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/plan.h"
#include "runtime/executor/executor.h"
#include "tools/workflow/priced_machine.h"

namespace partita {

// One plan, running on this host's devices on random data: for measuring step times side by side.
class MeasuredPlan {
 public:
  // `graph` outlives it.
  static absl::StatusOr<std::unique_ptr<MeasuredPlan>> Open(const Graph& graph, const Plan& plan,
                                                            bool record_timeline = false);

  // One step: its wall time, and with `record_timeline` when each task ran.
  absl::StatusOr<StepResult> Step();
  const TaskGraph& tasks() const { return executor_->program().tasks; }
  Bytes Allocated(DeviceId device) const { return executor_->AllocatedBytes(device); }
  // The largest number of bytes allocated on a device.
  Bytes LargestAllocation() const;
  std::vector<Bytes> BytesReceived() const { return executor_->BytesReceived(); }

 private:
  MeasuredPlan(const Graph& graph) : graph_(graph) {}
  const Graph& graph_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  std::vector<float> input_;
  std::vector<int32_t> labels_;
  int64_t step_ = 0;
};

// Median step time of each plan over `rounds` steps. Plans take turns of a few steps, each after
// one that is not counted: a step behind another plan's finds its data out of the caches, and
// training has no such steps. Plans whose devices have teams of several threads are opened for
// their turns only: the teams of two open plans would be more threads than cores, and then no team
// waits actively. When `stop` becomes true: over the steps made so far, if every plan has one,
// otherwise Cancelled.
absl::StatusOr<std::vector<Nanos>> MeasureInterleaved(const Graph& graph,
                                                      const std::vector<Plan>& plans, int rounds,
                                                      const std::atomic<bool>* stop = nullptr);

}  // namespace partita

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "graph/task/task_graph.h"
#include "runtime/backend/backend.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/message_port.h"
#include "runtime/executor/device_lanes.h"
#include "runtime/executor/device_threads.h"
#include "runtime/executor/step_replay.h"

namespace partita {

// The steps of an executor: replayed as they were recorded where that can be, else enqueued piece
// by piece.
//
// Devices of this process that reach each other are recorded as one (CUDA: as one graph). Where a
// library connects them whose calls meet those of their peers (NCCL), each device is recorded by
// itself and run by its own thread. Then all processes of the program do the same at every step,
// since NCCL demands that a call is recorded by all of its ranks or by none, and that all run what
// they recorded together. So before each step each process tells the others where its batch is and
// whether it wants the step piece by piece (GatherBytes); a step is replayed where all batches are
// where they were when it was recorded. What one process cannot record, none does.
class ReplayedSteps {
 public:
  // Objects that belong to the executor, and outlive this.
  struct Setup {
    const TaskGraph& tasks;
    std::span<const PlacedDevice> placed;
    // By device; null: of another process.
    std::span<const std::unique_ptr<BackendDevice>> devices;
    std::span<const std::unique_ptr<DeviceLanes>> lanes;
    Communicator& communicator;  // after Connect
    DeviceThreads* threads;      // null: one thread enqueues for all devices
    MessagePort* port;           // null: there are no other processes
  };
  // Collective. Without `is_asked_for`, steps are enqueued piece by piece.
  ReplayedSteps(const Setup& setup, bool is_asked_for);

  // Enqueues a step, on all processes: `enqueue` gives it to the streams piece by piece, which is
  // how it is done here if `piecewise`. After BeginStep of all lanes.
  absl::Status Enqueue(const StepFeed& feed, bool piecewise, const std::function<void()>& enqueue);

  // Reason why steps are not, or no longer, recorded, or OK.
  const absl::Status& status() const { return replay_ == nullptr ? can_ : replay_->status(); }
  // Steps that were run as they had been recorded.
  int64_t runs() const { return replay_ == nullptr ? 0 : replay_->runs(); }

 private:
  // Collective: the first error of any process, with its rank.
  absl::Status Agreed(const absl::Status& own) const;
  // Collective: the batches of all processes in place of this one's; whether any wants `piecewise`.
  absl::StatusOr<bool> Compare(bool piecewise);
  std::unique_ptr<StreamRecording> NewRecording() const;

  const Setup setup_;
  const bool together_;  // with other processes
  absl::Status can_;
  std::unique_ptr<StepReplay> replay_;  // null: steps are enqueued piece by piece
  std::vector<BatchAddress> batches_;   // of the current step, by device
};

}  // namespace partita

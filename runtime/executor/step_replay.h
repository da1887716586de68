#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "graph/task/task_graph.h"
#include "runtime/backend/backend.h"
#include "runtime/comm/communicator.h"
#include "runtime/executor/device_lanes.h"

namespace partita {

// Facts that decide whether steps can be recorded.
struct ReplayQuestion {
  const TaskGraph& tasks;
  std::span<const PlacedDevice> placed;
  std::span<const std::unique_ptr<BackendDevice>> devices;  // null: of another process
  const Communicator& communicator;                         // communicator after Prepare
};

// OK if the work of a step differs from the last one's in nothing but where the batch is and the
// numbers of StepArguments, so that it can be recorded and run again. Unimplemented gives the
// reason why not: the backend records nothing, devices that do not reach each other and are not
// recorded each by itself (Communicator::EnqueueMeetsPeers), communication through the host, or
// through a library that cannot be recorded.
absl::Status CanReplay(const ReplayQuestion& question);

// Steps that are recorded and run again. Batches come from a few addresses in turn; there is a
// recording for each.
class StepReplay {
 public:
  using MakeRecording = std::function<std::unique_ptr<StreamRecording>()>;
  // The status of all that record together, from one's own: the same for all of them. Called before
  // and after what is recorded.
  using Agree = std::function<absl::Status(const absl::Status&)>;
  explicit StepReplay(
      MakeRecording make, Agree agree = [](const absl::Status& own) { return own; })
      : make_(std::move(make)), agree_(std::move(agree)) {}

  // Enqueues a step whose batch is there, by device: `enqueue` gives it to the streams piece by
  // piece. The first step of an address is run so (libraries load what they need), the second is
  // recorded, and that one and later ones are run as they were recorded. What cannot be recorded is
  // enqueued piece by piece. Errors are of running what was recorded.
  absl::Status Enqueue(std::span<const BatchAddress> batch, const StepArguments& arguments,
                       const std::function<void()>& enqueue);

  // Reason why steps are no longer recorded, or OK.
  const absl::Status& status() const { return status_; }
  // Steps that were run as they had been recorded.
  int64_t runs() const { return runs_; }

  static constexpr size_t kMostAddresses = 8;

 private:
  struct Recorded {
    std::vector<BatchAddress> batch;
    std::unique_ptr<StreamRecording> recording;  // null: not yet
  };
  Recorded* Find(std::span<const BatchAddress> batch);
  void Remember(std::span<const BatchAddress> batch);
  // Whether there is a recording now.
  bool Record(Recorded& recorded, const std::function<void()>& enqueue);

  const MakeRecording make_;
  const Agree agree_;
  std::vector<Recorded> recorded_;
  absl::Status status_;
  int64_t runs_ = 0;
};

}  // namespace partita

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/backend/backend.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/message_port.h"
#include "runtime/executor/host_tensor.h"
#include "runtime/lowering/program.h"

namespace partita {

// Times at which an instruction ran, in nanoseconds since the step began.
struct MeasuredInstruction {
  TaskId task;
  DeviceId device;
  bool communication = false;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct StepResult {
  // Values in the order of TaskGraph::outputs(): the loss, ...; as double (ring values: the low 53
  // bits would be lost, read those with ReadOutput).
  std::vector<double> outputs;
  std::vector<MeasuredInstruction> timeline;  // timeline, only if asked for
  int64_t wall_ns = 0;
  // True if its batch had been staged on every device of this process that stages.
  bool staged = false;
  // True if it replayed a recorded step.
  bool replayed = false;
};

struct ExecutorOptions {
  // One for each device of the program; of several backends where the communicator can do that.
  // Those that are given no store of algorithms share one, and do not measure where there are other
  // processes: copies of a tensor that several devices compute are equal bit for bit.
  std::vector<PlacedDevice> devices;
  // A step in which no stream ends any work for this long is given up, and all lanes are listed; a
  // step that is replayed is one piece of work.
  double hang_seconds = 60;
  bool record_timeline = false;
  // Checks the operands and results of every kernel, before and after it, for NaN and infinity. If
  // there is one, the step ends and is OutOfRange, naming the first tensor and operator in the
  // program's order; the devices remain usable.
  bool check_finite = false;
  // Whether steps are recorded and run again where that can be.
  bool replay = true;
  // Stop flag: when it becomes true, a step ends within a tenth of a second and the instruction
  // that runs: Cancelled, as is every later step. Null: never. Outlives the executor.
  const std::atomic<bool>* stop = nullptr;
  // Port to the other processes of a program whose device d is rank d's; outlives the executor.
  // Then this process opens its own device only, and all processes make the same calls in the same
  // order. Null: all devices are here.
  MessagePort* port = nullptr;
};

// Runs a program: every device's lanes as streams of its backend, in the program's order. Weights
// and states stay on the devices between steps. Not thread safe.
class Executor {
 public:
  // Opens the devices, prepares every kernel, assigns memory (Lower) and allocates it. `graph` must
  // outlive the executor. ResourceExhausted if a device has too little memory.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      TaskGraph tasks, std::vector<TaskId> order, const Graph& graph,
      std::unique_ptr<Communicator> communicator, ExecutorOptions options);
  ~Executor();

  // Sets a weight or state everywhere it lives; reads it, each element from its first holder.
  // Types: the tensor's own. InvalidArgument for values that are not as many as those of the whole
  // tensor, or of another type.
  absl::Status WriteTensor(TensorId id, HostTensor values);
  absl::Status ReadTensor(TensorId id, std::span<std::byte> values);
  // DataLoss, naming tensor, box and device, if copies of a weight or state differ: in a bit, since
  // Exchange makes them equal; where the program's devices have several backends, by more than
  // `verify` allows.
  absl::Status CheckCopies();
  // OutOfRange, naming tensor and device, if one of these weights and states holds NaN or infinity
  // anywhere; the same on all processes.
  absl::Status CheckValues(std::span<const TensorId> tensors);

  // Progress of this process's devices, for the watchdog. Any thread.
  struct Progress {
    bool in_step = false;
    int64_t completed = 0;  // pieces of work, of all steps
    // Whether a step may wait for other processes on a device, or in a library, where nobody sees it.
    bool meets_peers = false;
  };
  Progress CurrentProgress() const;

  // Turns these options of ExecutorOptions on or off for later steps.
  void CheckFinite(bool on);
  void RecordTimeline(bool on);

  // OK: steps are recorded and run again, but for the first ones, and those whose results are
  // checked or whose timeline is recorded. Else the reason why they are always enqueued one by one.
  absl::Status CanReplay() const;

  // One training step. `input` and `labels` are whole batches; InvalidArgument, and no step, where
  // they are not, by type and size. Of a model without labels these may be anything.
  absl::StatusOr<StepResult> Step(HostTensor input, HostTensor labels,
                                  const StepArguments& arguments);
  // Begins to copy the next step's batch to devices that have memory of their own, concurrently
  // with the step before it; Step finds it there by its addresses. The caller's memory stays valid
  // until then, or until two other batches were staged. On other devices, and of what Step would
  // refuse, it does nothing.
  void Stage(HostTensor input, HostTensor labels);
  bool Stages() const;
  // Memory that batches are best read into; the executor's.
  std::pmr::memory_resource* batch_memory() const;
  // The value of a host output of the last step, bytes as on the device. InvalidArgument where
  // `values` are not as many.
  absl::Status ReadOutput(size_t output, std::span<std::byte> values);

  // Kernel::note of kernels of this process's devices, each with their number; a line each.
  std::vector<std::string> KernelNotes() const;

  const Program& program() const;
  // Bytes allocated on a device: arena and scratch; 0 for a device of another process.
  Bytes AllocatedBytes(DeviceId device) const;
  std::vector<Bytes> BytesReceived() const;

 private:
  class Impl;
  explicit Executor(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace partita

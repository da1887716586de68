#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/backend/backend.h"
#include "runtime/comm/communicator.h"
#include "runtime/executor/batch_stage.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/not_finite.h"
#include "runtime/lowering/program.h"

namespace partita {

// Inputs of a step to every device.
struct StepFeed {
  HostTensor input, labels;
  StepArguments arguments;
  int64_t round = 0;
  // Check of kernels' operands and results for values that are not finite; null: unchecked.
  NotFinite* not_finite = nullptr;
};

// Address at which a step's loads read its batch.
struct BatchAddress {
  const void *input = nullptr, *labels = nullptr;
  friend bool operator==(const BatchAddress&, const BatchAddress&) = default;
};

// Kernels of a device, by signature index; null where the device does not run it.
using DeviceKernels = std::vector<std::unique_ptr<Kernel>>;

struct DeviceWithKernels {
  DeviceId id;
  BackendDevice* device = nullptr;
  DeviceKernels kernels;
};

// One device of an executor: memory, streams, and every instruction with its addresses filled in,
// so that a step only enqueues.
class DeviceLanes {
 public:
  // Allocates; the device and what the other arguments refer to outlive it.
  static absl::StatusOr<std::unique_ptr<DeviceLanes>> Create(const Program& program,
                                                             const Graph& graph,
                                                             DeviceWithKernels device,
                                                             const ExecutorOptions& options);

  // Instructions, in the program's order, and the place of each in it. For a step each is enqueued,
  // and once that was done with all devices' instructions of one place, signalled to the other
  // lane.
  size_t size() const { return ready_.size(); }
  size_t PlaceOf(size_t instruction) const { return ready_[instruction]->place; }
  void Enqueue(size_t instruction, const StepFeed& feed, Communicator& communicator);
  void Signal(size_t instruction, int64_t round);
  // Begins and ends a step: to be called before its first instruction and after its last. False if
  // the device stages batches, and the step's is not staged.
  bool BeginStep(const StepFeed& feed);
  void EndStep();
  // Batch of a step, nothing where the device loads none; to be called after BeginStep.
  BatchAddress BatchOf(const StepFeed& feed) const;
  // Null where batches are loaded from the host's memory.
  BatchStage* stage() const { return stage_.get(); }
  // Enqueue copies of a whole buffer of this device between steps: from a tensor's `box` in host
  // memory, row-major; to a host copy of the buffer. The memory is used until Synchronize.
  void CopyFromHost(const Buffer& to, const Box& box, const void* from);
  void CopyToHost(const Buffer& from, void* to);
  // Enqueues a check of a whole buffer. `found` outlives Synchronize.
  void CheckFinite(const Buffer& buffer, int64_t place, std::string what, NotFinite& found);
  absl::Status Synchronize();
  Stream& compute() const { return *compute_; }
  Stream& communication() const { return *communication_; }
  int64_t completed() const {
    return compute_->completed() + communication_->completed() +
           (stage_ == nullptr ? 0 : stage_->completed());
  }
  std::string Describe() const;

  void AppendTimeline(int64_t step_start_ns, std::vector<MeasuredInstruction>& timeline) const;
  Bytes allocated() const { return Bytes(arena_->bytes() + scratch_->bytes()); }

 private:
  // An instruction ready to enqueue.
  struct Ready {
    const Instruction* instruction = nullptr;
    const Task* task = nullptr;
    size_t place = 0;  // position in the program's order
    Stream* stream = nullptr;
    Event* event = nullptr;  // event recorded after it
    std::vector<Event*> waits;
    WorkTiming timing;
    // Compute.
    const Kernel* kernel = nullptr;
    std::vector<TensorArgument> inputs, outputs;
    KernelArguments arguments;
    std::vector<Stream::MoveArguments> moves;  // MoveTask
    CommunicationArguments communication;
  };

  DeviceLanes(const Program& program, const Graph& graph, DeviceId id, BackendDevice& device,
              const ExecutorOptions& options)
      : program_(program), graph_(graph), id_(id), device_(device), options_(options) {}
  absl::Status Allocate();
  void Fill(const std::vector<Instruction>& lane, Stream& stream);
  void PutInOrder();
  void FillCompute(const ComputeTask& task, Ready& ready);
  void FillMoves(const MoveTask& task, Ready& ready);
  void FillCommunication(const Task& task, Ready& ready);
  void EnqueueLoad(const LoadTask& task, Ready& ready, const StepFeed& feed);
  void CheckInputs(const Ready& ready, NotFinite& found);
  void CheckOutputs(const Ready& ready, NotFinite& found);
  KernelTensors TensorsOf(const ComputeTask& task) const;
  std::string NameOf(const ComputeTask& task) const;
  void* AddressOf(BufferId id) const;
  TensorArgument Argument(BufferId buffer, const Box& box, TensorId tensor) const;

  const Program& program_;
  const Graph& graph_;
  const DeviceId id_;
  BackendDevice& device_;
  const ExecutorOptions& options_;
  DeviceKernels kernels_;
  std::unique_ptr<DeviceMemory> arena_, scratch_;
  // Factors of 1 in host memory that the device can read; null: kOnes.
  std::unique_ptr<DeviceMemory> ones_;
  std::unique_ptr<BatchStage> stage_;
  bool staged_ = false;  // the current step's batch is staged
  bool loads_batches_ = false;
  std::unique_ptr<Stream> compute_, communication_;
  std::vector<std::unique_ptr<Event>> events_;
  absl::flat_hash_map<TaskId, Event*> event_of_;
  std::vector<std::unique_ptr<Ready>> ready_;  // instructions of both lanes, in the program's order
};

}  // namespace partita

#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/cuda/cuda_device.h"
#include "runtime/backend/cuda/plan/kernel_steps.h"
#include "runtime/backend/cuda/strided_box.h"

namespace partita {

// A kernel made ready for a GPU.
class CudaKernel : public Kernel {
 public:
  // Enqueues its work on a stream of the current device.
  virtual absl::Status Enqueue(const KernelArguments& arguments, const LaunchMemory& memory,
                               cudaStream_t stream) const = 0;
};

class CudaStream;

// A capture of work of several streams that is under way.
struct StreamCapture {
  // An event that the work records at each run, and where its time belongs.
  struct Stamp {
    CudaStream* stream;
    cudaEvent_t event;
    int64_t* ns;
  };
  std::vector<Stamp> stamps;
  StepNumbers* numbers = nullptr;  // address in device memory at which kernels find the step's
                                   // numbers
  // The first reason why a piece of work cannot be captured; the rest is skipped then.
  absl::Status status;
};

class CudaEvent : public Event {
 public:
  explicit CudaEvent(std::shared_ptr<CudaDeviceState> state);
  ~CudaEvent() override;
  cudaEvent_t get() const { return event_; }

 private:
  std::shared_ptr<CudaDeviceState> state_;
  cudaEvent_t event_ = nullptr;  // null if it could not be made: the device has failed then
};

// A CUDA stream. Timings are taken by events and filled in by Synchronize. Host calls run on a
// thread of the driver, maybe one at a time for all streams.
class CudaStream : public Stream {
 public:
  // One for communication has the device's highest priority: its kernels take multiprocessors before
  // those of a compute stream that wait for some.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(std::string name, StreamUse use,
                                                            std::shared_ptr<CudaDeviceState> state);
  ~CudaStream() override;

  void Launch(const Kernel& kernel, const KernelArguments& arguments, void* scratch,
              WorkTiming* timing) override;
  void RunMoves(std::span<const MoveArguments> moves, WorkTiming* timing) override;
  void CopyFromHost(const MoveArguments& move, WorkTiming* timing) override;
  void CopyToHost(const MoveArguments& move, WorkTiming* timing) override;
  void CheckFinite(DType dtype, const void* data, int64_t count,
                   std::function<absl::Status()> error) override;
  void Stamp(int64_t* ns) override;
  void Record(Event& event, int64_t round) override;
  void Wait(Event& event, int64_t round) override;
  void Set(HostSignal& signal, int64_t round) override;
  void Await(HostSignal& signal, int64_t round) override;
  void HostCall(std::function<absl::Status()> call, WorkTiming* timing) override;
  void EnqueueNative(std::function<absl::Status(void* native_stream)> call,
                     WorkTiming* timing) override;
  absl::Status Synchronize() override;
  int64_t completed() const override;
  std::string Describe() const override;

  cudaStream_t get() const { return stream_; }
  absl::Status MakeCurrent() const { return state_->MakeCurrent(); }
  // Begins and ends a capture: work enqueued between these calls becomes part of it, and errors are
  // no failure of the device.
  void StartRecording(StreamCapture* capture) { capture_ = capture; }
  void StopRecording() { capture_ = nullptr; }
  // A piece of work was enqueued that had been recorded.
  void CountRecorded();
  // Stores the time of an event of it by the next Synchronize; the event stays its owner's.
  void StoreTime(cudaEvent_t event, int64_t* ns) { timed_.push_back({event, ns, false}); }

 private:
  // An event whose time is to be stored.
  struct Timed {
    cudaEvent_t event;
    int64_t* ns;
    bool is_own = true;  // goes back to the free ones
  };
  // An event after the first `count` pieces of work.
  struct Mark {
    cudaEvent_t event;
    int64_t count;
  };

  CudaStream(std::string name, std::shared_ptr<CudaDeviceState> state)
      : name_(std::move(name)), state_(std::move(state)) {}
  absl::Status Open(StreamUse use);
  // Records an error of enqueuing: as the capture's while a step is recorded, else as the device's.
  void Fail(const absl::Status& status);
  bool skips() const;

  // Runs `enqueue` unless the device has failed, between timing events where asked for.
  template <class Call>
  void Do(const char* what, WorkTiming* timing, Call&& enqueue);
  absl::Status CopyRows(const MoveArguments& move, const StridedBox& box, cudaMemcpyKind kind);
  absl::Status RunMove(const MoveArguments& move);
  absl::Status EnqueueStamp(int64_t* ns);
  void CountWork();
  absl::StatusOr<cudaEvent_t> TakeEvent(bool timing);
  absl::Status WaitUntilIdle();
  absl::Status FillTimings();
  absl::Status CheckFlags();

  const std::string name_;
  std::shared_ptr<CudaDeviceState> state_;
  cudaStream_t stream_ = nullptr;
  StreamCapture* capture_ = nullptr;        // capture under way while a step is recorded
  std::vector<cudaEvent_t> timing_events_;  // free
  std::vector<Timed> timed_;                // timings enqueued since the last Synchronize
  // Checks since the last Synchronize: flags in host memory that the device maps.
  int32_t* flags_ = nullptr;
  std::vector<std::function<absl::Status()>> checks_;

  mutable std::mutex mutex_;  // guards all below: the watch asks for progress from another thread
  mutable std::vector<cudaEvent_t> mark_events_;  // free
  mutable std::deque<Mark> marks_;
  mutable int64_t completed_ = 0;
  int64_t enqueued_ = 0;
  const char* last_ = "nothing";
};

}  // namespace partita

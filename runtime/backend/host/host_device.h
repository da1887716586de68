#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/support/thread.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/first_error.h"

namespace partita {

// Common part of the backends that compute on the host's cores: streams are threads, memory is
// aligned host memory, events are counters. A backend adds its kernels and how its threads are set
// up.

class HostKernel : public Kernel {
 public:
  virtual absl::Status Run(const KernelArguments& arguments, void* scratch) const = 0;
};

// Copies one box between windows; for kReorder see RunConversion.
absl::Status RunDenseMove(const Stream::MoveArguments& move);
// kReorder of a whole row-major piece: to another element type of floating-point numbers, or a
// copy. Unimplemented for other types.
absl::Status RunConversion(const Stream::MoveArguments& move);

// State shared by the streams of one device.
class HostDeviceState {
 public:
  // Keeps the first error, tells `report`, and releases every thread that waits for an event.
  void Fail(const absl::Status& status);
  bool failed() const { return error_.is_set(); }
  absl::Status status() const { return error_.status(); }
  void set_report(std::function<void(const absl::Status&)> report) {
    error_.set_report(std::move(report));
  }
  void Register(std::atomic<int64_t>* round);
  void Unregister(std::atomic<int64_t>* round);

 private:
  FirstError error_;
  std::mutex mutex_;  // guards events_
  std::vector<std::atomic<int64_t>*> events_;
};

class HostEvent : public Event {
 public:
  explicit HostEvent(std::shared_ptr<HostDeviceState> state);
  ~HostEvent() override;
  void Record(int64_t round);
  void Wait(int64_t round);

 private:
  std::shared_ptr<HostDeviceState> state_;
  std::atomic<int64_t> round_{-1};
};

// A thread that runs what it is given, in order. What work throws fails the device.
class HostStream : public Stream {
 public:
  HostStream(std::string name, std::shared_ptr<HostDeviceState> state)
      : name_(std::move(name)), state_(std::move(state)) {}
  ~HostStream() override;
  // Starts the thread, before any work. `on_start` (may be null) runs first on the new thread
  // (affinity, flush-to-zero, thread team).
  absl::Status Start(std::function<void()> on_start);

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
  int64_t completed() const override { return completed_.load(std::memory_order_relaxed); }
  std::string Describe() const override;

 protected:
  // A move that is not dense to dense.
  virtual absl::Status RunReorder(const MoveArguments& move);

 private:
  struct Work {
    std::function<absl::Status()> run;
    bool always = false;  // true: runs also after a failure (events)
    const char* what = "";
    WorkTiming* timing = nullptr;
  };
  void Enqueue(Work work);
  void Loop(const std::function<void()>& on_start);
  void RunOne(Work& work);

  const std::string name_;
  std::shared_ptr<HostDeviceState> state_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<Work> queue_, batch_;  // work enqueued, and work that the thread has taken
  bool stop_ = false, busy_ = false;
  std::atomic<int64_t> completed_{0};
  std::atomic<const char*> doing_{"idle"};
  Thread thread_;
};

// The shared memory of one device that is allocated at present.
struct SharedMemories {
  std::mutex mutex;
  std::vector<const SharedMemory*> list;
};

class HostDevice : public BackendDevice {
 public:
  explicit HostDevice(DeviceSpec spec);
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(int64_t bytes) override {
    return Allocate(bytes);
  }
  bool HostAddressable() const override { return true; }
  bool Reaches(const BackendDevice& other) const override { return other.HostAddressable(); }
  void ShareMemory() override { shares_ = true; }
  std::vector<const SharedMemory*> shared_memory() const override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(const std::string& name,
                                                    StreamUse use) override;
  std::unique_ptr<Event> NewEvent() override;
  int64_t NativeBytes(const TensorType& type) const override { return type.bytes(); }
  void OnError(std::function<void(const absl::Status&)> report) override;
  void Abort(const absl::Status& reason) override;

 protected:
  const DeviceSpec& spec() const { return spec_; }
  std::shared_ptr<HostDeviceState> state() const { return state_; }

 private:
  DeviceSpec spec_;
  std::shared_ptr<HostDeviceState> state_;
  bool shares_ = false;
  std::shared_ptr<SharedMemories> shared_;
};

}  // namespace partita

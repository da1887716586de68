#include "runtime/backend/host/host_device.h"

#include <stdlib.h>
#include <sys/mman.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/clock.h"
#include "graph/support/error_category.h"
#include "graph/support/exceptions.h"
#include "graph/support/status_macros.h"
#include "runtime/support/finite.h"

namespace partita {
namespace {

constexpr int64_t kReleased = std::numeric_limits<int64_t>::max();

template <class T>
bool AllFinite(const void* data, int64_t count) {
  return FirstNotFinite(std::span(static_cast<const T*>(data), static_cast<size_t>(count))) < 0;
}

bool AllFinite(DType dtype, const void* data, int64_t count) {
  if (dtype == DType::kFloat32) return AllFinite<float>(data, count);
  if (dtype == DType::kFloat64) return AllFinite<double>(data, count);
  return true;
}

}  // namespace

void HostDeviceState::Fail(const absl::Status& status) {
  error_.Set(status, [this] {
    std::lock_guard lock(mutex_);
    for (auto* event : events_) {
      event->store(kReleased, std::memory_order_release);
      event->notify_all();
    }
  });
}

void HostDeviceState::Register(std::atomic<int64_t>* round) {
  std::lock_guard lock(mutex_);
  events_.push_back(round);
}

void HostDeviceState::Unregister(std::atomic<int64_t>* round) {
  std::lock_guard lock(mutex_);
  std::erase(events_, round);
}

HostEvent::HostEvent(std::shared_ptr<HostDeviceState> state) : state_(std::move(state)) {
  state_->Register(&round_);
}

HostEvent::~HostEvent() { state_->Unregister(&round_); }

void HostEvent::Record(int64_t round) {
  if (state_->failed()) return;  // already released
  round_.store(round, std::memory_order_release);
  round_.notify_all();
  // A failure between the check and the store must not be lost.
  if (state_->failed()) {
    round_.store(kReleased, std::memory_order_release);
    round_.notify_all();
  }
}

void HostEvent::Wait(int64_t round) {
  for (;;) {
    const int64_t seen = round_.load(std::memory_order_acquire);
    if (seen >= round || state_->failed()) return;
    round_.wait(seen, std::memory_order_acquire);
  }
}

absl::Status HostStream::Start(std::function<void()> on_start) {
  ASSIGN_OR_RETURN(thread_, Thread::Start(
                                absl::StrCat("running ", name_),
                                [this, on_start = std::move(on_start)] { Loop(on_start); },
                                [this](const absl::Status& status) { state_->Fail(status); }));
  return absl::OkStatus();
}

HostStream::~HostStream() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.Join();
}

void HostStream::Enqueue(Work work) {
  bool was_empty;
  {
    std::lock_guard lock(mutex_);
    was_empty = queue_.empty();
    queue_.push_back(std::move(work));
  }
  if (was_empty) wake_.notify_one();
}

void HostStream::Loop(const std::function<void()>& on_start) {
  if (on_start) {
    const absl::Status started = Catching(on_start);
    if (!started.ok()) state_->Fail(started);
  }
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    busy_ = true;
    batch_.swap(queue_);
    lock.unlock();
    for (Work& work : batch_) RunOne(work);
    batch_.clear();
    lock.lock();
    busy_ = false;
    if (queue_.empty()) idle_.notify_all();
  }
}

void HostStream::RunOne(Work& work) {
  if (!work.always && state_->failed()) return;
  doing_.store(work.what, std::memory_order_relaxed);
  if (work.timing != nullptr) work.timing->start_ns = SteadyNow();
  const absl::Status status = Catching(work.run);
  if (work.timing != nullptr) work.timing->end_ns = SteadyNow();
  completed_.fetch_add(1, std::memory_order_relaxed);
  doing_.store("idle", std::memory_order_relaxed);
  if (!status.ok()) state_->Fail(status);
}

void HostStream::Launch(const Kernel& kernel, const KernelArguments& arguments, void* scratch,
                        WorkTiming* timing) {
  const auto* host = static_cast<const HostKernel*>(&kernel);
  Enqueue({[host, arguments, scratch] { return host->Run(arguments, scratch); }, false, "kernel",
           timing});
}

void HostStream::RunMoves(std::span<const MoveArguments> moves, WorkTiming* timing) {
  Enqueue({[this, moves]() -> absl::Status {
             for (const MoveArguments& move : moves) {
               const absl::Status status = move.kind == MoveSignature::Kind::kReorder
                                               ? RunReorder(move)
                                               : RunDenseMove(move);
               if (!status.ok()) return status;
             }
             return absl::OkStatus();
           },
           false, "move", timing});
}

absl::Status HostStream::RunReorder(const MoveArguments& move) { return RunConversion(move); }

void HostStream::CopyFromHost(const MoveArguments& move, WorkTiming* timing) {
  Enqueue({[move] { return RunDenseMove(move); }, false, "copy from host", timing});
}

void HostStream::CopyToHost(const MoveArguments& move, WorkTiming* timing) {
  Enqueue({[move] { return RunDenseMove(move); }, false, "copy to host", timing});
}

void HostStream::CheckFinite(DType dtype, const void* data, int64_t count,
                             std::function<absl::Status()> error) {
  Enqueue({[=, error = std::move(error)] {
             return AllFinite(dtype, data, count) ? absl::OkStatus() : error();
           },
           false, "check of finite values", nullptr});
}

void HostStream::Stamp(int64_t* ns) {
  Enqueue({[ns]() -> absl::Status {
             *ns = SteadyNow();
             return absl::OkStatus();
           },
           false, "stamp", nullptr});
}

void HostStream::Record(Event& event, int64_t round) {
  auto* host = static_cast<HostEvent*>(&event);
  Enqueue({[host, round]() -> absl::Status {
             host->Record(round);
             return absl::OkStatus();
           },
           true, "record", nullptr});
}

void HostStream::Wait(Event& event, int64_t round) {
  auto* host = static_cast<HostEvent*>(&event);
  Enqueue({[host, round]() -> absl::Status {
             host->Wait(round);
             return absl::OkStatus();
           },
           false, "wait for the other lane", nullptr});
}

void HostStream::Set(HostSignal& signal, int64_t round) {
  Enqueue({[signal, round]() mutable -> absl::Status {
             signal.Set(round);
             return absl::OkStatus();
           },
           true, "signal", nullptr});
}

void HostStream::Await(HostSignal& signal, int64_t round) {
  Enqueue({[signal, round]() -> absl::Status {
             return signal.Wait(round) ? absl::OkStatus() : AbandonedError("another device failed");
           },
           false, "wait for another device", nullptr});
}

void HostStream::HostCall(std::function<absl::Status()> call, WorkTiming* timing) {
  Enqueue({std::move(call), false, "host call", timing});
}

void HostStream::EnqueueNative(std::function<absl::Status(void* native_stream)> call,
                               WorkTiming* timing) {
  Enqueue({[this, call = std::move(call)] { return call(this); }, false, "library call", timing});
}

absl::Status HostStream::Synchronize() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return queue_.empty() && !busy_; });
  lock.unlock();
  return state_->failed() ? state_->status() : absl::OkStatus();
}

std::string HostStream::Describe() const {
  size_t queued;
  {
    std::lock_guard lock(mutex_);
    queued = queue_.size();
  }
  return absl::StrCat(name_, ": ", doing_.load(std::memory_order_relaxed), ", ", completed(),
                      " pieces of work done, ", queued, " queued");
}

namespace {

// Host memory, zeroed, on huge pages where the system has them.
class HostMemory : public DeviceMemory {
 public:
  using DeviceMemory::DeviceMemory;
  ~HostMemory() override {
    if (bytes() > 0) munmap(data(), static_cast<size_t>(bytes()));
  }
};

// Host memory that other processes map, in the list of its device.
class SharedHostMemory : public DeviceMemory {
 public:
  SharedHostMemory(SharedMemory memory, std::shared_ptr<SharedMemories> all)
      : DeviceMemory(memory.data(), memory.bytes()),
        memory_(std::move(memory)),
        all_(std::move(all)) {
    const std::lock_guard lock(all_->mutex);
    all_->list.push_back(&memory_);
  }
  ~SharedHostMemory() override {
    const std::lock_guard lock(all_->mutex);
    std::erase(all_->list, &memory_);
  }

 private:
  const SharedMemory memory_;
  const std::shared_ptr<SharedMemories> all_;
};

}  // namespace

HostDevice::HostDevice(DeviceSpec spec)
    : spec_(std::move(spec)),
      state_(std::make_shared<HostDeviceState>()),
      shared_(std::make_shared<SharedMemories>()) {}

std::vector<const SharedMemory*> HostDevice::shared_memory() const {
  if (!shares_) return {};  // some of it could not be shared: peers cannot rely on the rest
  const std::lock_guard lock(shared_->mutex);
  return shared_->list;
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> HostDevice::Allocate(int64_t bytes) {
  if (bytes == 0) return std::make_unique<HostMemory>(nullptr, 0);
  if (shares_) {
    absl::StatusOr<SharedMemory> shared = SharedMemory::Make(bytes);
    if (shared.ok()) return std::make_unique<SharedHostMemory>(*std::move(shared), shared_);
    shares_ = false;
  }
  void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return MemoryError(
        absl::StrCat("cannot allocate ", bytes, " bytes of host memory for a device"));
  }
  madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return std::make_unique<HostMemory>(data, bytes);
}

absl::StatusOr<std::unique_ptr<Stream>> HostDevice::NewStream(const std::string& name, StreamUse) {
  auto stream = std::make_unique<HostStream>(name, state_);
  RETURN_IF_ERROR(stream->Start(nullptr));
  return stream;
}

std::unique_ptr<Event> HostDevice::NewEvent() { return std::make_unique<HostEvent>(state_); }

void HostDevice::OnError(std::function<void(const absl::Status&)> report) {
  state_->set_report(std::move(report));
}

void HostDevice::Abort(const absl::Status& reason) { state_->Fail(reason); }

}  // namespace partita

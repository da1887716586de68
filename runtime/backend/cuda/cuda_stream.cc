#include "runtime/backend/cuda/cuda_stream.h"

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "graph/support/clock.h"
#include "graph/support/exceptions.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/cuda/box_moves.h"
#include "runtime/backend/cuda/cuda_status.h"
#include "runtime/backend/cuda/move_kernels.h"

namespace partita {
namespace {

constexpr int64_t kWorkPerMark = 16;
constexpr size_t kMostChecks = 4096;  // between two Synchronize

ElementType ElementTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ElementType::kFloat32;
    case DType::kFloat64:
      return ElementType::kFloat64;
    case DType::kInt32:
      return ElementType::kInt32;
    case DType::kRing64:
      return ElementType::kRing64;
  }
  return ElementType::kFloat32;
}

MoveOp MoveOpOf(MoveSignature::Kind kind) {
  switch (kind) {
    case MoveSignature::Kind::kFill:
      return MoveOp::kZero;
    case MoveSignature::Kind::kAdd:
      return MoveOp::kAdd;
    case MoveSignature::Kind::kMax:
      return MoveOp::kMax;
    case MoveSignature::Kind::kCopy:
    case MoveSignature::Kind::kReorder:
      return MoveOp::kCopy;
  }
  return MoveOp::kCopy;
}

// Work that is done otherwise at every step.
absl::Status NotRecorded(const char* what) {
  return absl::UnimplementedError(absl::StrCat(what, " cannot be part of a recorded step"));
}

// A recorded copy reads host memory when it runs: only what is pinned stays where it is.
absl::Status CheckPinned(const void* data) {
  cudaPointerAttributes attributes = {};
  const cudaError_t code = cudaPointerGetAttributes(&attributes, data);
  if (code == cudaSuccess && attributes.type == cudaMemoryTypeHost) return absl::OkStatus();
  (void)cudaGetLastError();
  return NotRecorded("a copy from host memory that is not pinned");
}

// A host call queued in the driver.
struct Call {
  std::function<absl::Status()> run;
  std::shared_ptr<CudaDeviceState> state;
  WorkTiming* timing;
};

// The driver's cuStreamWaitValue64, found at run time: nothing links the driver.
using StreamWait = CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned int);
absl::StatusOr<StreamWait> StreamWaitFunction() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  RETURN_IF_ERROR(CudaStatus(cudaGetDriverEntryPointByVersion("cuStreamWaitValue64", &function,
                                                              12000, cudaEnableDefault, &found),
                             "looking for cuStreamWaitValue64"));
  if (found == cudaDriverEntryPointSuccess && function != nullptr) {
    return reinterpret_cast<StreamWait>(function);
  }
  return absl::UnavailableError("the driver has no cuStreamWaitValue64; wanted is one of CUDA 12");
}

// What a query says of work. That some is left must not be what the next launch finds as its error.
bool IsOver(cudaError_t code) {
  if (code != cudaErrorNotReady) return true;
  (void)cudaGetLastError();
  return false;
}

void CUDART_CB RunCall(void* data) {
  const std::unique_ptr<Call> call(static_cast<Call*>(data));
  if (call->state->failed()) return;
  if (call->timing != nullptr) call->timing->start_ns = SteadyNow();
  const absl::Status status = Catching(call->run);
  if (call->timing != nullptr) call->timing->end_ns = SteadyNow();
  if (!status.ok()) call->state->Fail(status);
}

}  // namespace

CudaEvent::CudaEvent(std::shared_ptr<CudaDeviceState> state) : state_(std::move(state)) {
  absl::Status status = state_->MakeCurrent();
  if (status.ok()) {
    status = CudaStatus(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "a new event");
  }
  if (!status.ok()) state_->Fail(status);
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr && state_->MakeCurrent().ok()) cudaEventDestroy(event_);
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(
    std::string name, StreamUse use, std::shared_ptr<CudaDeviceState> state) {
  std::unique_ptr<CudaStream> stream(new CudaStream(std::move(name), std::move(state)));
  RETURN_IF_ERROR(stream->Open(use));
  return stream;
}

absl::Status CudaStream::Open(StreamUse use) {
  RETURN_IF_ERROR(state_->MakeCurrent());
  int lowest = 0, highest = 0;  // the higher, the smaller the number
  RETURN_IF_ERROR(CudaStatus(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "a new stream"));
  const int priority = use == StreamUse::kCommunication ? highest : lowest;
  RETURN_IF_ERROR(CudaStatus(
      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority), "a new stream"));
  void* flags = nullptr;
  RETURN_IF_ERROR(CudaStatus(
      cudaHostAlloc(&flags, kMostChecks * sizeof(int32_t), cudaHostAllocMapped), "a new stream"));
  flags_ = static_cast<int32_t*>(flags);
  std::fill(flags_, flags_ + kMostChecks, 0);
  return absl::OkStatus();
}

CudaStream::~CudaStream() {
  if (stream_ == nullptr) return;
  (void)state_->MakeCurrent();
  (void)cudaStreamSynchronize(stream_);
  for (cudaEvent_t event : timing_events_) cudaEventDestroy(event);
  for (const Timed& timed : timed_) {
    if (timed.is_own) cudaEventDestroy(timed.event);
  }
  for (cudaEvent_t event : mark_events_) cudaEventDestroy(event);
  for (const Mark& mark : marks_) cudaEventDestroy(mark.event);
  if (flags_ != nullptr) cudaFreeHost(flags_);
  cudaStreamDestroy(stream_);
}

void CudaStream::CountRecorded() {
  {
    std::lock_guard lock(mutex_);
    last_ = "recorded step";
  }
  CountWork();
}

void CudaStream::Fail(const absl::Status& status) {
  if (capture_ != nullptr) return capture_->status.Update(status);
  state_->Fail(status);
}

bool CudaStream::skips() const {
  if (capture_ != nullptr && state_->failed()) capture_->status.Update(state_->status());
  return state_->failed() || (capture_ != nullptr && !capture_->status.ok());
}

template <class Enqueue>
void CudaStream::Do(const char* what, WorkTiming* timing, Enqueue&& enqueue) {
  if (skips()) return;
  const absl::Status status = [&]() -> absl::Status {
    RETURN_IF_ERROR(state_->MakeCurrent());
    if (timing != nullptr) RETURN_IF_ERROR(EnqueueStamp(&timing->start_ns));
    RETURN_IF_ERROR(enqueue());
    return timing == nullptr ? absl::OkStatus() : EnqueueStamp(&timing->end_ns);
  }();
  if (!status.ok()) return Fail(status);
  if (capture_ != nullptr) return;
  {
    std::lock_guard lock(mutex_);
    last_ = what;
  }
  CountWork();
}

void CudaStream::Launch(const Kernel& kernel, const KernelArguments& arguments, void* scratch,
                        WorkTiming* timing) {
  const auto& cuda = static_cast<const CudaKernel&>(kernel);
  const LaunchMemory memory{scratch, capture_ != nullptr ? capture_->numbers : nullptr};
  Do("kernel", timing, [&] { return cuda.Enqueue(arguments, memory, stream_); });
}

void CudaStream::RunMoves(std::span<const MoveArguments> moves, WorkTiming* timing) {
  Do("move", timing, [&]() -> absl::Status {
    for (const MoveArguments& move : moves) RETURN_IF_ERROR(RunMove(move));
    return absl::OkStatus();
  });
}

absl::Status CudaStream::RunMove(const MoveArguments& move) {
  if (move.kind == MoveSignature::Kind::kReorder) {
    return absl::UnimplementedError(absl::StrCat("the cuda backend converts no pieces from ",
                                                 Name(move.from_dtype), " to ", Name(move.dtype),
                                                 ": its buffers are dense and of float32"));
  }
  const StridedBox box = StridedBoxOf(move);
  if (box.elements > 0 && box.contiguous() && move.kind == MoveSignature::Kind::kCopy) {
    return CopyRows(move, box, cudaMemcpyDeviceToDevice);
  }
  const DeviceMove launched{MoveOpOf(move.kind), ElementTypeOf(move.dtype), move.from, move.to};
  return CudaStatus(LaunchMove(launched, box, stream_), "a move");
}

absl::Status CudaStream::CopyRows(const MoveArguments& move, const StridedBox& box,
                                  cudaMemcpyKind kind) {
  const auto size = static_cast<size_t>(SizeOf(move.dtype));
  for (const RowsCopy& copy : RowsCopiesOf(box)) {
    auto* to = static_cast<char*>(move.to) + static_cast<size_t>(copy.to_offset) * size;
    const auto* from =
        static_cast<const char*>(move.from) + static_cast<size_t>(copy.from_offset) * size;
    const auto width = static_cast<size_t>(copy.width) * size;
    if (copy.height == 1) {
      RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(to, from, width, kind, stream_), "a copy"));
      continue;
    }
    RETURN_IF_ERROR(
        CudaStatus(cudaMemcpy2DAsync(to, static_cast<size_t>(copy.to_pitch) * size, from,
                                     static_cast<size_t>(copy.from_pitch) * size, width,
                                     static_cast<size_t>(copy.height), kind, stream_),
                   "copies of rows"));
  }
  return absl::OkStatus();
}

void CudaStream::CopyFromHost(const MoveArguments& move, WorkTiming* timing) {
  Do("copy from host", timing, [&]() -> absl::Status {
    if (capture_ != nullptr) RETURN_IF_ERROR(CheckPinned(move.from));
    return CopyRows(move, StridedBoxOf(move), cudaMemcpyHostToDevice);
  });
}

void CudaStream::CopyToHost(const MoveArguments& move, WorkTiming* timing) {
  Do("copy to host", timing, [&]() -> absl::Status {
    if (capture_ != nullptr) return NotRecorded("a copy to the host");
    return CopyRows(move, StridedBoxOf(move), cudaMemcpyDeviceToHost);
  });
}

void CudaStream::CheckFinite(DType dtype, const void* data, int64_t count,
                             std::function<absl::Status()> error) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat64) return;
  Do("check of finite values", nullptr, [&]() -> absl::Status {
    if (capture_ != nullptr) return NotRecorded("a check of finite values");
    if (checks_.size() == kMostChecks) {
      RETURN_IF_ERROR(WaitUntilIdle());
      RETURN_IF_ERROR(CheckFlags());
    }
    int32_t* flag = flags_ + checks_.size();
    checks_.push_back(std::move(error));
    return CudaStatus(LaunchFiniteCheck(ElementTypeOf(dtype), data, count, flag, stream_),
                      "a check of finite values");
  });
}

void CudaStream::Stamp(int64_t* ns) {
  Do("stamp", nullptr, [&] { return EnqueueStamp(ns); });
}

absl::Status CudaStream::EnqueueStamp(int64_t* ns) {
  ASSIGN_OR_RETURN(const cudaEvent_t event, TakeEvent(true));
  if (capture_ != nullptr) {
    capture_->stamps.push_back({this, event, ns});
    return CudaStatus(cudaEventRecordWithFlags(event, stream_, cudaEventRecordExternal), "timing");
  }
  timed_.push_back({event, ns});
  return CudaStatus(cudaEventRecord(event, stream_), "timing");
}

void CudaStream::Record(Event& event, int64_t) {
  if (skips()) return;
  absl::Status status = state_->MakeCurrent();
  status.Update(
      CudaStatus(cudaEventRecord(static_cast<CudaEvent&>(event).get(), stream_), "an event"));
  if (!status.ok()) Fail(status);
}

void CudaStream::Wait(Event& event, int64_t) {
  if (skips()) return;
  absl::Status status = state_->MakeCurrent();
  status.Update(CudaStatus(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).get(), 0),
                           "waiting for an event"));
  if (!status.ok()) Fail(status);
}

void CudaStream::Set(HostSignal& signal, int64_t round) {
  HostCall(
      [signal, round]() mutable {
        signal.Set(round);
        return absl::OkStatus();
      },
      nullptr);
}

void CudaStream::Await(HostSignal& signal, int64_t round) {
  Do("wait for another device", nullptr, [&]() -> absl::Status {
    if (capture_ != nullptr) return NotRecorded("a wait for another device's signal");
    ASSIGN_OR_RETURN(const auto wait, StreamWaitFunction());
    void* word = nullptr;
    RETURN_IF_ERROR(
        CudaStatus(cudaHostGetDevicePointer(&word, signal.word(), 0), "a signal in host memory"));
    if (wait(stream_, reinterpret_cast<CUdeviceptr>(word), static_cast<cuuint64_t>(round),
             CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS) {
      return absl::OkStatus();
    }
    return absl::InternalError("the driver does not let a stream wait for host memory");
  });
}

void CudaStream::HostCall(std::function<absl::Status()> call, WorkTiming* timing) {
  Do("host call", nullptr, [&]() -> absl::Status {
    if (capture_ != nullptr) return NotRecorded("a call of the host");
    auto data = std::make_unique<Call>(Call{std::move(call), state_, timing});
    RETURN_IF_ERROR(CudaStatus(cudaLaunchHostFunc(stream_, RunCall, data.get()), "a host call"));
    (void)data.release();  // RunCall's
    return absl::OkStatus();
  });
}

void CudaStream::EnqueueNative(std::function<absl::Status(void* native_stream)> call,
                               WorkTiming* timing) {
  if (capture_ != nullptr && !capture_->status.ok() && !state_->failed()) {
    absl::Status status = state_->MakeCurrent();
    if (status.ok()) status = call(stream_);
    return capture_->status.Update(status);  // what was refused before stays
  }
  Do("library call", timing, [&]() -> absl::Status {
    return call(stream_);  // which adds to a capture what it enqueues
  });
}

absl::Status CudaStream::Synchronize() {
  absl::Status status = state_->failed() ? state_->status() : WaitUntilIdle();
  if (status.ok()) status = FillTimings();
  if (status.ok()) status = CheckFlags();
  if (!status.ok()) state_->Fail(status);
  return state_->failed() ? state_->status() : absl::OkStatus();
}

// Asks, so that an Abort releases it although the work goes on.
absl::Status CudaStream::WaitUntilIdle() {
  RETURN_IF_ERROR(state_->MakeCurrent());
  for (int asked = 0;; ++asked) {
    const cudaError_t code = cudaStreamQuery(stream_);
    if (IsOver(code)) return CudaStatus(code, "work on a GPU");
    if (state_->failed()) return state_->status();
    if (asked < 1000) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

// Events tell distances; the host's clock says when the last of them, recorded now, ends.
absl::Status CudaStream::FillTimings() {
  if (timed_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const cudaEvent_t now, TakeEvent(true));
  timing_events_.push_back(now);
  RETURN_IF_ERROR(CudaStatus(cudaEventRecord(now, stream_), "timing"));
  RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(now), "timing"));
  const int64_t now_ns = SteadyNow();
  for (const Timed& timed : timed_) {
    float ms = 0;
    RETURN_IF_ERROR(CudaStatus(cudaEventElapsedTime(&ms, timed.event, now), "timing"));
    *timed.ns = now_ns - static_cast<int64_t>(static_cast<double>(ms) * 1e6);
    if (timed.is_own) timing_events_.push_back(timed.event);
  }
  timed_.clear();
  return absl::OkStatus();
}

absl::Status CudaStream::CheckFlags() {
  absl::Status status;
  for (size_t k = 0; k < checks_.size(); ++k) {
    if (flags_[k] != 0) status.Update(checks_[k]());
    flags_[k] = 0;
  }
  checks_.clear();
  return status;
}

absl::StatusOr<cudaEvent_t> CudaStream::TakeEvent(bool timing) {
  auto& free = timing ? timing_events_ : mark_events_;
  if (!free.empty()) {
    const cudaEvent_t event = free.back();
    free.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(CudaStatus(
      cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming),
      "a new event"));
  return event;
}

void CudaStream::CountWork() {
  std::lock_guard lock(mutex_);
  if (++enqueued_ % kWorkPerMark != 0) return;
  const auto event = TakeEvent(false);
  if (!event.ok() || cudaEventRecord(*event, stream_) != cudaSuccess) return;
  marks_.push_back({*event, enqueued_});
}

int64_t CudaStream::completed() const {
  std::lock_guard lock(mutex_);
  if (!state_->MakeCurrent().ok()) return completed_;
  while (!marks_.empty()) {
    const cudaError_t code = cudaEventQuery(marks_.front().event);
    if (!IsOver(code) || code != cudaSuccess) break;
    completed_ = marks_.front().count;
    mark_events_.push_back(marks_.front().event);
    marks_.pop_front();
  }
  return completed_;
}

std::string CudaStream::Describe() const {
  const int64_t done = completed();
  std::lock_guard lock(mutex_);
  return absl::StrCat(name_, ": at least ", done, " of ", enqueued_,
                      " pieces of work done, the last enqueued is a ", last_);
}

}  // namespace partita

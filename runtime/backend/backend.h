#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/task/kernel_signature.h"
#include "graph/task/task_graph.h"
#include "runtime/backend/host_signal.h"
#include "runtime/backend/kernel_arguments.h"
#include "runtime/backend/precision.h"
#include "runtime/support/shared_memory.h"

namespace partita {

// Backend that runs kernels: a kind of hardware with its library. Devices of one backend share
// nothing but the process. The shape is that of CUDA (streams run their work in order, events order
// streams against each other, the host only enqueues), which host threads imitate without loss.

// Times at which one piece of work ran, on the clock of std::chrono::steady_clock. Written by the
// stream.
struct WorkTiming {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// A mark in a stream. Recorded again every step; waiting for round k returns once round k was
// recorded. As with CUDA's events, the record is enqueued before the waits for it.
class Event {
 public:
  virtual ~Event() = default;
};

// A kernel made ready for one device: primitives created, algorithms chosen. Used by one stream at
// a time.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Temporary memory that a launch needs, in bytes, 64-byte aligned.
  virtual int64_t scratch_bytes() const = 0;
  // Remark for people on kernels that compute otherwise than their signature asks for, and why:
  // "compute in float32 instead of bfloat16: ..."; empty: it does not.
  virtual std::string note() const { return ""; }
};

// Work in order. Enqueuing never waits for the work. Errors of the work surface in Synchronize.
class Stream {
 public:
  virtual ~Stream() = default;

  // Runs a kernel. The argument spans must stay valid until the work has run; `scratch` holds the
  // kernel's scratch_bytes. `timing` may be null.
  virtual void Launch(const Kernel& kernel, const KernelArguments& arguments, void* scratch,
                      WorkTiming* timing) = 0;

  // One box copy, sum, maximum or fill between row-major windows in device memory; or a change of
  // element type and format of a whole piece.
  struct MoveArguments {
    MoveSignature::Kind kind;
    DType dtype;       // of what is written
    const void* from;  // the element at the start of `from_box`
    void* to;
    Box from_box, to_box, region;
    // kReorder: the formats of both sides; the boxes are equal.
    Format from_format = Format::kDense, to_format = Format::kDense;
    DType from_dtype = dtype;  // of what is read; another one only for kReorder
  };
  // Move between pieces of memory that have no shape.
  static MoveArguments FlatMove(MoveSignature::Kind kind, DType dtype, const void* from, void* to,
                                int64_t count) {
    const Box box{{0, count}};
    return {kind, dtype, from, to, box, box, box};
  }
  virtual void RunMoves(std::span<const MoveArguments> moves, WorkTiming* timing) = 0;

  // kCopy of one box between row-major windows: of host memory, which stays valid until the work
  // has run, and of device memory.
  virtual void CopyFromHost(const MoveArguments& move, WorkTiming* timing) = 0;
  virtual void CopyToHost(const MoveArguments& move, WorkTiming* timing) = 0;

  // Calls `error` by Synchronize, on any thread, if one of these elements is NaN or infinite when
  // the work before this has run; the stream fails with what it returns. Others pass.
  virtual void CheckFinite(DType dtype, const void* data, int64_t count,
                           std::function<absl::Status()> error) = 0;

  // *ns = the time, on steady_clock, when the work before this had run; it is there after
  // Synchronize.
  virtual void Stamp(int64_t* ns) = 0;

  virtual void Record(Event& event, int64_t round) = 0;
  virtual void Wait(Event& event, int64_t round) = 0;

  // The same between streams of different backends. A signal outlives the work; a stream that waits
  // for one that is released fails, or goes on.
  virtual void Set(HostSignal& signal, int64_t round) = 0;
  virtual void Await(HostSignal& signal, int64_t round) = 0;

  // Calls a function on the host when the work before it has run; work after it waits. For
  // communicators that move data with the host.
  virtual void HostCall(std::function<absl::Status()> call, WorkTiming* timing) = 0;

  // Lets a communication library put work of its own on this stream. CUDA: calls at once, with the
  // stream's cudaStream_t and its GPU current on the calling thread; what the library enqueues runs
  // in order with the rest. Host streams: calls on the stream's thread when the work before has
  // run, with the address of the stream; what the library does until it returns is the work. An
  // error fails the stream; nothing is called once it has failed. While the stream is recorded, what
  // the library enqueues is: the call is made once, also where something else could not be recorded,
  // since peers that record the same may wait for it.
  virtual void EnqueueNative(std::function<absl::Status(void* native_stream)> call,
                             WorkTiming* timing) = 0;

  // Waits until all work has run. The first error of any of it; after an error the rest is skipped.
  virtual absl::Status Synchronize() = 0;

  // Pieces of work that have ended since the stream was made: a stream that stands still while
  // others wait for it hangs.
  virtual int64_t completed() const = 0;
  // Description of the work under way, for messages about hangs.
  virtual std::string Describe() const = 0;
};

// A piece of a device's memory, which a backend's subclass frees.
class DeviceMemory {
 public:
  DeviceMemory(void* data, int64_t bytes) : data_(data), bytes_(bytes) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* const data_;
  const int64_t bytes_;
};

// Use of a stream. One for communication runs host calls and copies only: it needs no team of
// threads.
enum class StreamUse : uint8_t { kCompute, kCommunication };

// One open device, which may be a share of a machine's cores. (A `Device` is its description in a
// DeviceTopology.)
class BackendDevice {
 public:
  virtual ~BackendDevice() = default;
  // ResourceExhausted with the bytes wanted and free.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes) = 0;
  // Host memory, zeroed, that the device copies from and to at full speed and without the host
  // waiting (CUDA: pinned, for all GPUs), and whose signals it can wait for.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(int64_t bytes) = 0;
  // Whether code on the host may read and write the device's memory.
  virtual bool HostAddressable() const = 0;
  // Whether this device's moves may read the other's memory, and its streams wait for the other's
  // events.
  virtual bool Reaches(const BackendDevice& other) const = 0;
  // Makes memory allocated from now on mappable by other processes of the host; where the backend
  // or the system cannot do that, it stays private.
  virtual void ShareMemory() {}
  // Memory that was allocated as shared and is not freed; valid until it is freed.
  virtual std::vector<const SharedMemory*> shared_memory() const { return {}; }
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream(const std::string& name,
                                                            StreamUse use) = 0;
  virtual std::unique_ptr<Event> NewEvent() = 0;
  // Unimplemented if the backend has no such kernel: it says which.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature) = 0;
  // Bytes of a buffer in the device's native format.
  virtual int64_t NativeBytes(const TensorType& type) const = 0;
  // `report` is called, on the stream's thread, with the first error of any work of the device: so
  // that threads that wait for this device can be released. Set before any work.
  virtual void OnError(std::function<void(const absl::Status&)> report) = 0;
  // Makes all streams of the device skip what is left and end with this error; releases waits for
  // events.
  virtual void Abort(const absl::Status& reason) = 0;
};

// Work of streams, recorded and then run as one, so that the host enqueues it at once (CUDA: a
// graph). One for each thing to record; used by one thread.
class StreamRecording {
 public:
  virtual ~StreamRecording() = default;
  // Begins recording: work enqueued on the streams until End is recorded and not run: kernels,
  // moves, copies from host memory that the device allocated, events, and times, which are stored
  // after each run. A recorded wait for an event is for a record of it in the same recording.
  virtual absl::Status Begin() = 0;
  // The first reason why the work, or a piece of it, cannot be recorded: it is then forgotten, as
  // if it had not been enqueued.
  virtual absl::Status End() = 0;
  // Enqueues the recorded work after what the streams were given before, with these numbers in the
  // places of those of the launches that were recorded. Host memory that is copied from is read
  // anew. The work of the last Run has ended.
  virtual absl::Status Run(const StepArguments& arguments) = 0;
};

class AlgorithmStore;

// Specification of a device.
struct DeviceSpec {
  int index = 0;           // index within its kind: the GPU's number
  std::vector<int> cores;  // CPU: the cores that its threads run on; empty: any
  int threads = 1;         // CPU: size of its thread team
  // GPU: where algorithms that were measured are found and kept; outlives the device. Null: each
  // device measures for itself.
  AlgorithmStore* algorithms = nullptr;
  // GPU: false: if the store has none, the library's own suggestion is taken, which is the same for
  // equal GPUs, whatever process has them.
  bool measure_algorithms = true;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // Reason why the backend cannot run here, or OK.
  virtual absl::Status Available() const = 0;
  // Whether its devices are threads of this process, in the host's memory.
  virtual bool RunsOnHost() const = 0;
  virtual absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const = 0;
  // Creates a recording for streams of its devices that reach each other; they outlive it. Null:
  // the backend records nothing.
  virtual std::unique_ptr<StreamRecording> NewRecording(std::span<Stream* const>) const {
    return nullptr;
  }
};

// A device that is not open yet, and what runs it.
struct PlacedDevice {
  std::shared_ptr<const Backend> backend;
  DeviceSpec spec;

  absl::StatusOr<std::unique_ptr<BackendDevice>> Open() const { return backend->Open(spec); }
};

}  // namespace partita

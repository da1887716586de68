#include "runtime/profiler/kernel_profiler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "graph/support/aligned.h"
#include "graph/support/error_category.h"
#include "graph/support/exceptions.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/inproc/group_barrier.h"
#include "runtime/profiler/recorded_work.h"

namespace partita {
namespace {

// Beyond what caches keep of a step: the L2 of a GPU has up to 126 MiB (B200).
constexpr int64_t kMostFlushed = int64_t{64} << 20;
constexpr int64_t kMostFlushedOfGpu = int64_t{256} << 20;

constexpr auto kLongestHold = std::chrono::milliseconds(20);
constexpr double kWarmUp = 0.2;  // seconds

absl::Status AwaitFor(std::chrono::milliseconds most, const std::atomic<bool>& flag) {
  const auto until = std::chrono::steady_clock::now() + most;
  while (!flag && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return absl::OkStatus();
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Numbers of ordinary size, none like its neighbours; labels are 0, which every class count allows.
void FillData(const TensorType& type, void* data, uint64_t stream) {
  const int64_t count = Volume(type.shape);
  for (int64_t i = 0; i < count; ++i) {
    const auto word = static_cast<int32_t>(Mix64(stream << 40 | static_cast<uint64_t>(i)));
    const float value = static_cast<float>(word) * 0x1p-31f;
    switch (type.dtype) {
      case DType::kFloat32:
        static_cast<float*>(data)[i] = value;
        break;
      case DType::kFloat64:
        static_cast<double*>(data)[i] = value * value + 1;
        break;
      case DType::kInt32:
        static_cast<int32_t*>(data)[i] = word & 0xff;  // labels, indices: not all equal
        break;
      case DType::kRing64:
        static_cast<uint64_t*>(data)[i] = static_cast<uint64_t>(i);
        break;
    }
  }
}

void Rectify(const TensorType& type, void* data) {
  if (type.dtype != DType::kFloat32) return;
  auto* values = static_cast<float*>(data);
  for (int64_t i = 0; i < Volume(type.shape); ++i) values[i] = std::max(values[i], 0.f);
}

struct OpenDevice {
  std::shared_ptr<const Backend> backend;
  std::unique_ptr<BackendDevice> device;
  std::unique_ptr<Stream> stream;
};

// Numbers as FillData makes them, in device memory that the host may not reach.
absl::Status UploadData(const TensorType& type, uint64_t numbers, bool rectified, OpenDevice& open,
                        void* to) {
  std::vector<std::byte> data(static_cast<size_t>(type.bytes()));
  FillData(type, data.data(), numbers);
  if (rectified) Rectify(type, data.data());
  open.stream->CopyFromHost(
      Stream::FlatMove(MoveSignature::Kind::kCopy, type.dtype, data.data(), to, Volume(type.shape)),
      nullptr);
  return open.stream->Synchronize();
}

// A copy of a row of floats by the device's own kernel: what a task before would have done to its
// output.
KernelSignature CopyOf(int64_t elements) {
  const KernelTensor row{{DType::kFloat32, {elements}}};
  return {.attrs = Reshape{{elements}}, .pass = {}, .inputs = {row}, .outputs = {row}};
}

// Copies within device memory that write operands or displace others from caches.
class Producer {
 public:
  // `from` and `to` hold `type` each.
  absl::Status Prepare(BackendDevice& device, const TensorType& type, void* from, void* to) {
    const int64_t elements = type.bytes() / SizeOf(DType::kFloat32);
    ASSIGN_OR_RETURN(kernel_, device.Prepare(CopyOf(elements)));
    ASSIGN_OR_RETURN(scratch_, device.Allocate(kernel_->scratch_bytes()));
    input_ = {from, Box{{0, elements}}, {elements}};
    output_ = {to, Box{{0, elements}}, {elements}};
    arguments_.inputs = std::span(&input_, 1);
    arguments_.outputs = std::span(&output_, 1);
    return absl::OkStatus();
  }
  void Enqueue(Stream& stream) const {
    stream.Launch(*kernel_, arguments_, scratch_->data(), nullptr);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<DeviceMemory> scratch_;
  TensorArgument input_, output_;
  KernelArguments arguments_;
};

// One work on one device.
class Bench {
 public:
  virtual ~Bench() = default;
  virtual void Enqueue(Stream& stream, WorkTiming* timing) const = 0;
  void WriteFresh(Stream& stream) const {
    for (const auto& producer : producers_) producer->Enqueue(stream);
  }
  int64_t scratch_bytes() const { return scratch_bytes_; }

 protected:
  absl::Status AddProducer(BackendDevice& device, const TensorType& type, void* from, void* to) {
    if (type.bytes() == 0) return absl::OkStatus();
    producers_.push_back(std::make_unique<Producer>());
    return producers_.back()->Prepare(device, type, from, to);
  }
  std::vector<std::unique_ptr<Producer>> producers_;
  int64_t scratch_bytes_ = 0;
};

class KernelBench : public Bench {
 public:
  absl::Status Prepare(const KernelWork& work, OpenDevice& open) {
    BackendDevice& device = *open.device;
    const KernelSignature& signature = work.signature;
    ASSIGN_OR_RETURN(kernel_, device.Prepare(signature));
    scratch_bytes_ = kernel_->scratch_bytes();
    ASSIGN_OR_RETURN(scratch_, device.Allocate(scratch_bytes_));
    for (size_t k = 0; k < signature.inputs.size(); ++k) {
      const KernelTensor& t = signature.inputs[k];
      ASSIGN_OR_RETURN(void* data, Place(t, device, inputs_));
      if (data == nullptr) continue;
      const bool rectified = k < work.rectified.size() && work.rectified[k];
      RETURN_IF_ERROR(UploadData(t.type, k + 1, rectified, open, data));
      if (k >= work.fresh.size() || !work.fresh[k]) continue;
      ASSIGN_OR_RETURN(auto source, device.Allocate(BytesOf(t, device)));
      RETURN_IF_ERROR(UploadData(t.type, k + 1, rectified, open, source->data()));
      RETURN_IF_ERROR(AddProducer(device, t.type, source->data(), data));
      memories_.push_back(std::move(source));
    }
    for (size_t k = 0; k < signature.outputs.size(); ++k) {
      const KernelTensor& t = signature.outputs[k];
      const int over = k < work.in_place_of.size() ? work.in_place_of[k] : -1;
      if (over >= 0) {
        outputs_.push_back(
            {inputs_[static_cast<size_t>(over)].data, Box::Full(t.type.shape), t.type.shape});
      } else {
        RETURN_IF_ERROR(Place(t, device, outputs_).status());
      }
    }
    arguments_.inputs = inputs_;
    arguments_.outputs = outputs_;
    return absl::OkStatus();
  }
  void Enqueue(Stream& stream, WorkTiming* timing) const override {
    stream.Launch(*kernel_, arguments_, scratch_->data(), timing);
  }

 private:
  static int64_t BytesOf(const KernelTensor& t, const BackendDevice& device) {
    return t.format == Format::kNative ? device.NativeBytes(t.type) : t.type.bytes();
  }

  // Null for what is not present or empty.
  absl::StatusOr<void*> Place(const KernelTensor& t, BackendDevice& device,
                              std::vector<TensorArgument>& list) {
    void* data = nullptr;
    if (t.present && Volume(t.type.shape) > 0) {
      ASSIGN_OR_RETURN(auto memory, device.Allocate(Aligned(BytesOf(t, device))));
      data = memory->data();
      memories_.push_back(std::move(memory));
    }
    list.push_back({data, Box::Full(t.type.shape), t.type.shape});
    return data;
  }

  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<DeviceMemory> scratch_;
  std::vector<std::unique_ptr<DeviceMemory>> memories_;
  std::vector<TensorArgument> inputs_, outputs_;
  KernelArguments arguments_;
};

// A move between two windows whose rows of `run` elements lie one run apart on one side; what it
// reads is fresh.
class MoveBench : public Bench {
 public:
  absl::Status Prepare(const MoveSignature& signature, OpenDevice& open) {
    BackendDevice& device = *open.device;
    const int64_t run = std::max<int64_t>(1, signature.run);
    const int64_t rows = std::max<int64_t>(1, signature.elements / run);
    const Box region{{0, rows}, {0, run}};
    const Box wide{{0, rows}, {0, rows > 1 ? run + std::min<int64_t>(run, 64) : run}};
    const TensorType from{signature.from, {wide.volume()}};
    ASSIGN_OR_RETURN(from_, device.Allocate(Aligned(from.bytes())));
    ASSIGN_OR_RETURN(source_, device.Allocate(Aligned(from.bytes())));
    ASSIGN_OR_RETURN(to_, device.Allocate(Aligned(region.volume() * SizeOf(signature.dtype))));
    RETURN_IF_ERROR(UploadData(from, 1, false, open, source_->data()));
    if (signature.kind != MoveSignature::Kind::kFill) {
      RETURN_IF_ERROR(AddProducer(device, from, source_->data(), from_->data()));
    }
    moves_ = {{signature.kind, signature.dtype, from_->data(), to_->data(), wide, region, region}};
    moves_[0].from_dtype = signature.from;
    if (signature.kind == MoveSignature::Kind::kReorder) moves_[0].from_box = region;  // whole
    return absl::OkStatus();
  }
  void Enqueue(Stream& stream, WorkTiming* timing) const override {
    stream.RunMoves(moves_, timing);
  }

 private:
  std::unique_ptr<DeviceMemory> from_, source_, to_;
  std::vector<Stream::MoveArguments> moves_;
};

struct MakeBench {
  OpenDevice& open;
  absl::StatusOr<std::unique_ptr<Bench>> operator()(const KernelWork& work) const {
    auto bench = std::make_unique<KernelBench>();
    RETURN_IF_ERROR(bench->Prepare(work, open));
    return bench;
  }
  absl::StatusOr<std::unique_ptr<Bench>> operator()(const MoveSignature& signature) const {
    auto bench = std::make_unique<MoveBench>();
    RETURN_IF_ERROR(bench->Prepare(signature, open));
    return bench;
  }
};

// What one device runs in a sweep.
struct DeviceBatch {
  std::vector<std::unique_ptr<Bench>> benches;
  std::vector<WorkTiming> timings, warm;
  WorkTiming nothing;  // of no work: what taking times adds to them
  std::unique_ptr<DeviceMemory> displacing;
  Producer displace;
  std::unique_ptr<StreamRecording> recording;  // of a sweep; null: there is none

  int64_t NanosOf(const WorkTiming& timing) const {
    const int64_t added = nothing.end_ns - nothing.start_ns;
    return std::max<int64_t>(1, timing.end_ns - timing.start_ns - added);
  }
};

class BackendProfiler : public KernelProfiler {
 public:
  absl::Status OpenAll(std::span<const PlacedDevice> devices) {
    together_ = std::make_unique<GroupBarrier>(static_cast<int>(devices.size()));
    for (const PlacedDevice& device : devices) {
      OpenDevice open{.backend = device.backend};
      ASSIGN_OR_RETURN(open.device, device.Open());
      open.device->OnError([this](const absl::Status&) { together_->Break(); });
      ASSIGN_OR_RETURN(open.stream, open.device->NewStream("profiler", StreamUse::kCompute));
      devices_.push_back(std::move(open));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Measurement>> Measure(std::span<const ProfiledWork> batch,
                                                   const ProfilerOptions& options) override {
    std::vector<DeviceBatch> works(devices_.size());
    for (size_t d = 0; d < devices_.size(); ++d) {
      RETURN_IF_ERROR(Prepare(batch, options, devices_[d], works[d]));
    }
    std::vector<Measurement> results(batch.size());
    for (size_t k = 0; k < batch.size(); ++k) {
      for (const DeviceBatch& work : works) {
        results[k].scratch_bytes =
            std::max(results[k].scratch_bytes, work.benches[k]->scratch_bytes());
      }
    }
    RETURN_IF_ERROR(Sweep(works, options, results, &Measurement::samples_ns));
    if (devices_.size() > 1) {
      RETURN_IF_ERROR(
          Sweep(std::span(works).first(1), options, results, &Measurement::uncontended_ns));
    }
    return results;
  }

 private:
  static absl::Status Prepare(std::span<const ProfiledWork> batch, const ProfilerOptions& options,
                              OpenDevice& open, DeviceBatch& work) {
    int64_t bytes = 0;
    for (const ProfiledWork& w : batch) {
      ASSIGN_OR_RETURN(auto bench, std::visit(MakeBench{open}, w));
      work.benches.push_back(std::move(bench));
      bytes += OperandBytes(w);
    }
    work.timings.resize(batch.size());
    if (options.warm) work.warm.resize(batch.size());
    const int64_t most = open.device->HostAddressable() ? kMostFlushed : kMostFlushedOfGpu;
    const int64_t half = (std::min(options.footprint, most) - bytes) / 2 / 64 * 64;
    if (half <= 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(work.displacing, open.device->Allocate(2 * half));
    auto* base = static_cast<char*>(work.displacing->data());
    return work.displace.Prepare(*open.device, {DType::kFloat32, {half / 4}}, base, base + half);
  }

  // Runs of the batch on the first devices, until there are samples enough.
  absl::Status Sweep(std::span<DeviceBatch> works, const ProfilerOptions& options,
                     std::vector<Measurement>& results,
                     std::vector<int64_t> Measurement::* samples) {
    const auto begin = std::chrono::steady_clock::now();
    const double enough = options.seconds * static_cast<double>(results.size());
    for (int sweep = -1; sweep < options.samples; ++sweep) {
      if (sweep >= options.least_samples && SecondsSince(begin) >= enough) break;
      RETURN_IF_ERROR(RunSweep(works));
      if (sweep < 0) {
        RETURN_IF_ERROR(Record(works));
        if (!IsWarm(begin)) --sweep;
        continue;
      }
      for (size_t k = 0; k < results.size(); ++k) {
        for (const DeviceBatch& work : works) {
          (results[k].*samples).push_back(work.NanosOf(work.timings[k]));
          if (work.warm.empty() || samples != &Measurement::samples_ns) continue;
          results[k].warm_ns.push_back(work.NanosOf(work.warm[k]));
        }
      }
    }
    return absl::OkStatus();
  }

  // Until all of it has ended. What is thrown meanwhile ends the work that was given: it would wait
  // for ever for what was not.
  absl::Status RunSweep(std::span<DeviceBatch> works) {
    absl::Status enqueued;
    enqueued.Update(Catching([&] {
      for (size_t d = 0; d < works.size(); ++d) {
        // Host calls of GPUs must not wait for each other; with memory of its own, none slows
        // another down much either.
        const bool together = works.size() > 1 && devices_[d].device->HostAddressable();
        enqueued.Update(EnqueueSweep(works[d], devices_[d], together));
      }
    }));
    if (!enqueued.ok()) {
      together_->Break();
      for (OpenDevice& open : devices_) open.device->Abort(enqueued);
    }
    absl::Status status;
    for (size_t d = 0; d < works.size(); ++d) status.Update(devices_[d].stream->Synchronize());
    status.Update(enqueued);
    return status;
  }

  // Whether GPUs have had work for long enough, from `begin` on, to have raised their clocks.
  bool IsWarm(std::chrono::steady_clock::time_point begin) {
    is_warm_ = is_warm_ || devices_[0].device->HostAddressable() || SecondsSince(begin) > kWarmUp;
    return is_warm_;
  }

  // So that works have the times that they have in a replayed step. After a sweep: what kernels load
  // at their first launch is there.
  absl::Status Record(std::span<DeviceBatch> works) {
    for (size_t d = 0; d < works.size(); ++d) {
      if (works[d].recording != nullptr) continue;
      ASSIGN_OR_RETURN(works[d].recording,
                       RecordWork(*devices_[d].backend, *devices_[d].stream,
                                  [&] { EnqueueWorks(works[d], devices_[d], false); }));
    }
    return absl::OkStatus();
  }

  absl::Status EnqueueSweep(DeviceBatch& work, const OpenDevice& open, bool together) {
    if (work.recording != nullptr) return work.recording->Run({});
    // A GPU that is faster than the host enqueues would show how fast that is. It starts when it
    // has its work, or all that fits into its queues.
    const auto enqueued = std::make_shared<std::atomic<bool>>(false);
    if (!open.device->HostAddressable()) {
      open.stream->HostCall([enqueued] { return AwaitFor(kLongestHold, *enqueued); }, nullptr);
    }
    EnqueueWorks(work, open, together);
    *enqueued = true;
    return absl::OkStatus();
  }

  void EnqueueWorks(DeviceBatch& work, const OpenDevice& open, bool together) {
    Stream& stream = *open.stream;
    if (work.displacing != nullptr) work.displace.Enqueue(stream);
    if (!open.device->HostAddressable()) {
      stream.Stamp(&work.nothing.start_ns);
      stream.Stamp(&work.nothing.end_ns);
    }
    for (size_t k = 0; k < work.benches.size(); ++k) {
      work.benches[k]->WriteFresh(stream);
      if (together) {
        stream.HostCall(
            [this] {
              return together_->Arrive() ? absl::OkStatus()
                                         : AbandonedError("another device failed");
            },
            nullptr);
      }
      work.benches[k]->Enqueue(stream, &work.timings[k]);
      if (!work.warm.empty()) work.benches[k]->Enqueue(stream, &work.warm[k]);
    }
  }

  std::unique_ptr<GroupBarrier> together_;
  std::vector<OpenDevice> devices_;
  bool is_warm_ = false;
};

}  // namespace

int64_t OperandBytes(const ProfiledWork& work) {
  if (const auto* move = std::get_if<MoveSignature>(&work)) {
    return 2 * move->elements * SizeOf(move->dtype);
  }
  int64_t bytes = 0;
  const KernelSignature& signature = std::get<KernelWork>(work).signature;
  for (const auto* list : {&signature.inputs, &signature.outputs}) {
    for (const KernelTensor& t : *list) bytes += t.present ? t.type.bytes() : 0;
  }
  return bytes;
}

absl::StatusOr<std::unique_ptr<KernelProfiler>> KernelProfiler::Open(
    std::span<const PlacedDevice> devices) {
  auto profiler = std::make_unique<BackendProfiler>();
  RETURN_IF_ERROR(profiler->OpenAll(devices));
  return profiler;
}

}  // namespace partita

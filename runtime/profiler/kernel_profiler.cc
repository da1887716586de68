#include "runtime/profiler/kernel_profiler.h"

#include <algorithm>
#include <chrono>

#include "graph/support/philox.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Numbers of ordinary size; labels are 0, which every class count allows.
void FillData(const TensorType& type, void* data, uint64_t stream) {
  const int64_t count = Volume(type.shape);
  for (int64_t i = 0; i < count; ++i) {
    const float value = 2 * UnitFloat(PhiloxWord(1, stream, static_cast<uint64_t>(i))) - 1;
    switch (type.dtype) {
      case DType::kFloat32:
        static_cast<float*>(data)[i] = value;
        break;
      case DType::kFloat64:
        static_cast<double*>(data)[i] = value * value + 1;
        break;
      case DType::kInt32:
        static_cast<int32_t*>(data)[i] = 0;
        break;
      case DType::kRing64:
        static_cast<uint64_t*>(data)[i] = static_cast<uint64_t>(i);
        break;
    }
  }
}

// Random values for a small block, repeated: filling large tensors must not take longer than
// measuring them.
void FillFast(const TensorType& type, char* data, uint64_t stream) {
  constexpr int64_t kBlock = 4096;
  const int64_t count = Volume(type.shape), size = SizeOf(type.dtype);
  const int64_t head = std::min(count, kBlock);
  FillData({type.dtype, {head}}, data, stream);
  for (int64_t i = head; i < count; i += kBlock) {
    std::copy_n(data, std::min(kBlock, count - i) * size, data + i * size);
  }
}

struct OpenDevice {
  std::unique_ptr<BackendDevice> device;
  std::unique_ptr<Stream> stream;
};

class BackendProfiler : public KernelProfiler {
 public:
  absl::Status OpenAll(const Backend& backend, const std::vector<DeviceSpec>& specs) {
    for (const DeviceSpec& spec : specs) {
      OpenDevice open;
      ASSIGN_OR_RETURN(open.device, backend.Open(spec));
      ASSIGN_OR_RETURN(open.stream, open.device->NewStream("profiler"));
      devices_.push_back(std::move(open));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Measurement> Measure(const KernelSignature& signature,
                                      const ProfilerOptions& options) override {
    Measurement result;
    std::vector<std::unique_ptr<Bench>> benches;
    for (OpenDevice& open : devices_) {
      auto bench = std::make_unique<Bench>();
      ASSIGN_OR_RETURN(bench->kernel, open.device->Prepare(signature));
      result.scratch_bytes = std::max(result.scratch_bytes, bench->kernel->scratch_bytes());
      RETURN_IF_ERROR(bench->Fill(signature, *open.device));
      benches.push_back(std::move(bench));
    }
    RETURN_IF_ERROR(Sample(options, result, [&](size_t d, WorkTiming* timing) {
      devices_[d].stream->Launch(*benches[d]->kernel, benches[d]->arguments, benches[d]->scratch,
                                 timing);
    }));
    return result;
  }

  absl::StatusOr<Measurement> Measure(const MoveSignature& signature,
                                      const ProfilerOptions& options) override {
    // Two windows whose rows of `run` elements lie one run apart on one side.
    const int64_t run = std::max<int64_t>(1, signature.run);
    const int64_t rows = std::max<int64_t>(1, signature.elements / run);
    const Box region{{0, rows}, {0, run}};
    const Box wide{{0, rows}, {0, rows > 1 ? run + std::min<int64_t>(run, 64) : run}};
    std::vector<std::unique_ptr<DeviceMemory>> memories;
    std::vector<std::vector<Stream::MoveArguments>> moves;
    for (OpenDevice& open : devices_) {
      const int64_t size = SizeOf(signature.dtype);
      ASSIGN_OR_RETURN(auto memory, open.device->Allocate(Aligned(region.volume() * size) +
                                                          Aligned(wide.volume() * size)));
      auto* base = static_cast<char*>(memory->data());
      FillFast({signature.dtype, {wide.volume()}}, base, 1);
      moves.push_back({{signature.kind, signature.dtype, base, base + Aligned(wide.volume() * size),
                        wide, region, region}});
      memories.push_back(std::move(memory));
    }
    Measurement result;
    RETURN_IF_ERROR(Sample(options, result, [&](size_t d, WorkTiming* timing) {
      devices_[d].stream->RunMoves(moves[d], timing);
    }));
    return result;
  }

 private:
  // A kernel's data on one device.
  struct Bench {
    std::unique_ptr<Kernel> kernel;
    std::unique_ptr<DeviceMemory> memory;
    void* scratch = nullptr;
    std::vector<TensorArgument> inputs, outputs;
    KernelArguments arguments;

    absl::Status Fill(const KernelSignature& signature, BackendDevice& device) {
      int64_t bytes = Aligned(kernel->scratch_bytes());
      auto bytes_of = [&device](const KernelTensor& t) {
        return t.format == Format::kNative ? device.NativeBytes(t.type) : t.type.bytes();
      };
      for (const auto* list : {&signature.inputs, &signature.outputs}) {
        for (const KernelTensor& t : *list) bytes += Aligned(bytes_of(t));
      }
      ASSIGN_OR_RETURN(memory, device.Allocate(bytes));
      auto* next = static_cast<char*>(memory->data());
      scratch = next;
      next += Aligned(kernel->scratch_bytes());
      uint64_t stream = 1;
      auto place = [&](const KernelTensor& t, std::vector<TensorArgument>& list) {
        const bool empty = !t.present || Volume(t.type.shape) == 0;
        if (!empty) FillFast(t.type, next, stream++);
        list.push_back({empty ? nullptr : next, Box::Full(t.type.shape), t.type.shape});
        next += Aligned(bytes_of(t));
      };
      for (const KernelTensor& t : signature.inputs) place(t, inputs);
      for (const KernelTensor& t : signature.outputs) place(t, outputs);
      arguments.inputs = inputs;
      arguments.outputs = outputs;
      return absl::OkStatus();
    }
  };

  template <class Launch>
  absl::Status Sample(const ProfilerOptions& options, Measurement& result, Launch&& launch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int sample = -1; sample < options.samples; ++sample) {
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (sample >= options.least_samples && seconds >= options.seconds) break;
      std::vector<WorkTiming> timings(devices_.size());
      for (size_t d = 0; d < devices_.size(); ++d) launch(d, &timings[d]);
      for (OpenDevice& open : devices_) RETURN_IF_ERROR(open.stream->Synchronize());
      if (sample < 0) continue;
      for (const WorkTiming& timing : timings) {
        result.samples_ns.push_back(std::max<int64_t>(1, timing.end_ns - timing.start_ns));
      }
    }
    return absl::OkStatus();
  }

  std::vector<OpenDevice> devices_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KernelProfiler>> KernelProfiler::Open(
    const Backend& backend, const std::vector<DeviceSpec>& devices) {
  auto profiler = std::make_unique<BackendProfiler>();
  RETURN_IF_ERROR(profiler->OpenAll(backend, devices));
  return profiler;
}

}  // namespace partita

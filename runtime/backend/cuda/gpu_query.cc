#include "runtime/backend/cuda/gpu_query.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/cuda/cuda_status.h"
#include "runtime/backend/cuda/nvml.h"
#include "runtime/backend/cuda/vendor_library.h"

namespace partita {
namespace {

constexpr int kBusIdLength = 32;

// NVML numbers GPUs in its own way: they meet by their place on the bus.
void* NvmlDeviceOf(const NvmlFunctions& nvml, int index) {
  char bus[kBusIdLength] = {};
  void* device = nullptr;
  if (cudaDeviceGetPCIBusId(bus, kBusIdLength, index) != cudaSuccess) return nullptr;
  if (nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, &device) != kNvmlSuccess) return nullptr;
  return device;
}

// One number that NVML tells of a device; 0 where it does not.
template <class Function, class... Arguments>
int Ask(Function function, void* device, Arguments... arguments) {
  unsigned value = 0;
  return function(device, arguments..., &value) == kNvmlSuccess ? static_cast<int>(value) : 0;
}

int AttributeOf(int index, cudaDeviceAttr attribute) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, attribute, index) == cudaSuccess ? value : 0;
}

std::string DriverVersion(const NvmlFunctions* nvml) {
  char version[96] = {};
  if (nvml != nullptr &&
      nvml->nvmlSystemGetDriverVersion(version, sizeof(version)) == kNvmlSuccess) {
    return version;
  }
  int cuda = 0;
  (void)cudaDriverGetVersion(&cuda);
  return absl::StrCat("CUDA ", cuda / 1000, ".", cuda % 1000 / 10);
}

absl::StatusOr<GpuProperties> QueryGpu(int index, const NvmlFunctions* nvml) {
  cudaDeviceProp properties;
  RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, index), "asking about a GPU"));
  GpuProperties gpu{.index = index,
                    .name = properties.name,
                    .memory = Bytes(static_cast<int64_t>(properties.totalGlobalMem)),
                    .available = {},
                    .major = properties.major,
                    .minor = properties.minor,
                    .multiprocessors = properties.multiProcessorCount};
  size_t available = 0, total = 0;
  RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index), "asking about a GPU"));
  RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&available, &total), "asking about a GPU"));
  gpu.available = Bytes(static_cast<int64_t>(available));
  gpu.clock_mhz = AttributeOf(index, cudaDevAttrClockRate) / 1000;
  gpu.memory_clock_mhz = AttributeOf(index, cudaDevAttrMemoryClockRate) / 1000;
  gpu.memory_bus_bits = AttributeOf(index, cudaDevAttrGlobalMemoryBusWidth);
  gpu.l2_bytes = AttributeOf(index, cudaDevAttrL2CacheSize);
  void* device = nvml == nullptr ? nullptr : NvmlDeviceOf(*nvml, index);
  if (device == nullptr) return gpu;
  if (int mhz = Ask(nvml->nvmlDeviceGetMaxClockInfo, device, kNvmlClockSm)) gpu.clock_mhz = mhz;
  if (int mhz = Ask(nvml->nvmlDeviceGetMaxClockInfo, device, kNvmlClockMemory)) {
    gpu.memory_clock_mhz = mhz;
  }
  gpu.pcie_generation = Ask(nvml->nvmlDeviceGetMaxPcieLinkGeneration, device);
  gpu.pcie_width = Ask(nvml->nvmlDeviceGetMaxPcieLinkWidth, device);
  return gpu;
}

absl::Status CheckIsThere(int index) {
  ASSIGN_OR_RETURN(const int count, CountGpus());
  if (index >= 0 && index < count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("GPU ", index, " is not among the ", count,
                   " that this process is shown (CUDA_VISIBLE_DEVICES hides others)"));
}

}  // namespace

absl::StatusOr<int> CountGpus() {
  int count = 0;
  RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&count), "looking for GPUs"));
  if (count == 0) return absl::UnavailableError("the driver shows no GPU to this process");
  return count;
}

absl::StatusOr<GpuHost> QueryGpus() {
  ASSIGN_OR_RETURN(const int count, CountGpus());
  const auto nvml = LoadNvml();
  GpuHost host{.driver = DriverVersion(nvml.get())};
  const auto cudnn = LoadCudnn();
  host.cudnn = cudnn.ok() ? absl::StrCat(cudnn->cudnnGetVersion()) : cudnn.status().ToString();
  const auto cublaslt = LoadCublasLt();
  host.cublaslt =
      cublaslt.ok() ? absl::StrCat(cublaslt->cublasLtGetVersion()) : cublaslt.status().ToString();
  for (int index = 0; index < count; ++index) {
    ASSIGN_OR_RETURN(GpuProperties gpu, QueryGpu(index, nvml.get()));
    host.gpus.push_back(std::move(gpu));
  }
  return host;
}

absl::StatusOr<std::string> QueryGpuName(int index) {
  RETURN_IF_ERROR(CheckIsThere(index));
  cudaDeviceProp properties;
  RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, index), "asking about a GPU"));
  return std::string(properties.name);
}

absl::StatusOr<GpuActivity> QueryGpuActivity(int index) {
  RETURN_IF_ERROR(CheckIsThere(index));
  GpuActivity activity;
  const auto nvml = LoadNvml();
  void* device = nvml == nullptr ? nullptr : NvmlDeviceOf(*nvml, index);
  if (device == nullptr) return activity;
  activity.clock_mhz = Ask(nvml->nvmlDeviceGetClockInfo, device, kNvmlClockSm);
  activity.memory_clock_mhz = Ask(nvml->nvmlDeviceGetClockInfo, device, kNvmlClockMemory);
  activity.celsius = Ask(nvml->nvmlDeviceGetTemperature, device, kNvmlGpuTemperature);
  activity.milliwatts = Ask(nvml->nvmlDeviceGetPowerUsage, device);
  return activity;
}

}  // namespace partita

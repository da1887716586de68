#include "runtime/backend/cuda/nvml.h"

#include <dlfcn.h>

namespace partita {
namespace {

template <class Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::unique_ptr<const NvmlFunctions> LoadNvml() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto nvml = std::make_unique<NvmlFunctions>();
  const bool complete =
      Find(library, "nvmlInit_v2", nvml->nvmlInit_v2) &&
      Find(library, "nvmlSystemGetDriverVersion", nvml->nvmlSystemGetDriverVersion) &&
      Find(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml->nvmlDeviceGetHandleByPciBusId_v2) &&
      Find(library, "nvmlDeviceGetClockInfo", nvml->nvmlDeviceGetClockInfo) &&
      Find(library, "nvmlDeviceGetMaxClockInfo", nvml->nvmlDeviceGetMaxClockInfo) &&
      Find(library, "nvmlDeviceGetTemperature", nvml->nvmlDeviceGetTemperature) &&
      Find(library, "nvmlDeviceGetPowerUsage", nvml->nvmlDeviceGetPowerUsage) &&
      Find(library, "nvmlDeviceGetMaxPcieLinkGeneration",
           nvml->nvmlDeviceGetMaxPcieLinkGeneration) &&
      Find(library, "nvmlDeviceGetMaxPcieLinkWidth", nvml->nvmlDeviceGetMaxPcieLinkWidth);
  if (!complete || nvml->nvmlInit_v2() != kNvmlSuccess) return nullptr;
  return nvml;
}

}  // namespace partita

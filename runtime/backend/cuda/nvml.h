#pragma once

#include <memory>
#include <string>

namespace partita {

// The functions of NVML that are used here, under their own names. Its header comes with few
// toolkits, so their types are written out: nvmlReturn_t is an enumeration with 0 for success, a
// nvmlDevice_t an opaque pointer.
struct NvmlFunctions {
  int (*nvmlInit_v2)() = nullptr;
  int (*nvmlSystemGetDriverVersion)(char* version, unsigned length) = nullptr;
  int (*nvmlDeviceGetHandleByPciBusId_v2)(const char* bus, void** device) = nullptr;
  int (*nvmlDeviceGetClockInfo)(void* device, int type, unsigned* mhz) = nullptr;
  int (*nvmlDeviceGetMaxClockInfo)(void* device, int type, unsigned* mhz) = nullptr;
  int (*nvmlDeviceGetTemperature)(void* device, int sensor, unsigned* celsius) = nullptr;
  int (*nvmlDeviceGetPowerUsage)(void* device, unsigned* milliwatts) = nullptr;
  int (*nvmlDeviceGetMaxPcieLinkGeneration)(void* device, unsigned* generation) = nullptr;
  int (*nvmlDeviceGetMaxPcieLinkWidth)(void* device, unsigned* width) = nullptr;
};

inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlClockSm = 1, kNvmlClockMemory = 2;  // nvmlClockType_t
inline constexpr int kNvmlGpuTemperature = 0;                 // nvmlTemperatureSensors_t

// Loads and initialises NVML; null if there is none or a function is missing. It stays open.
std::unique_ptr<const NvmlFunctions> LoadNvml();

}  // namespace partita

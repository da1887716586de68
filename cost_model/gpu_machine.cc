#include "cost_model/gpu_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "cost_model/discovery.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr double kUnknownMemory = 5e11;  // bytes per second, where the driver tells no clock
constexpr double kUnknownClock = 1500;   // MHz

// Multiply-adds in float32 that a multiprocessor does in a cycle (CUDA C++ Programming Guide,
// "Arithmetic Instructions"): 64 for compute capability 6.0, 7.x and 8.0, else 128.
int LanesOf(const GpuProperties& gpu) {
  const bool half = gpu.major == 7 || (gpu.minor == 0 && (gpu.major == 6 || gpu.major == 8));
  return half ? 64 : 128;
}

// Multiply-adds with factors of 16 bits, added in float32, that a multiprocessor's tensor cores do
// in a cycle (NVIDIA's white papers of Volta, Turing, GA100, GA102, Ada, Hopper and Blackwell); 0:
// it has none. GeForce cards do half of that.
int TensorLanesOf(const GpuProperties& gpu) {
  struct Row {
    int major, minor, lanes;  // from this one on
  };
  constexpr Row kRows[] = {{7, 0, 512},  {8, 0, 1024},  {8, 6, 512},
                           {9, 0, 2048}, {10, 0, 4096}, {12, 0, 512}};
  int lanes = 0;
  for (const Row& row : kRows) {
    const bool has = gpu.major > row.major || (gpu.major == row.major && gpu.minor >= row.minor);
    if (has) lanes = row.lanes;
  }
  return absl::StrContains(gpu.name, "GeForce") ? lanes / 2 : lanes;
}

// Three quarters of the peak, as of float32. TF32, half as fast, and bfloat16 came with compute
// capability 8.0.
std::vector<PrecisionRate> EstimateRates(const GpuProperties& gpu, double hertz) {
  const double flops = 0.75 * 2.0 * TensorLanesOf(gpu) * std::max(1, gpu.multiprocessors) * hertz;
  if (flops == 0) return {};
  if (gpu.major < 8) return {{Precision::kFloat16, flops}};
  return {
      {Precision::kTf32, flops / 2}, {Precision::kFloat16, flops}, {Precision::kBfloat16, flops}};
}

// Matrix products reach three quarters of the peak, other arithmetic is bound by memory. Memory
// sends two words in a cycle, of which four fifths are seen.
DeviceClass EstimateClass(const GpuProperties& gpu, const std::string& driver) {
  const double hertz = 1e6 * (gpu.clock_mhz > 0 ? gpu.clock_mhz : kUnknownClock);
  const double peak = 2.0 * LanesOf(gpu) * std::max(1, gpu.multiprocessors) * hertz;
  const double bus = 1e6 * gpu.memory_clock_mhz * 2 * gpu.memory_bus_bits / 8.0;
  const double memory = bus > 0 ? 0.8 * bus : kUnknownMemory;
  const std::string hardware = HardwareText(gpu, driver);
  return {.name = ClassNameOf(gpu),
          .description = absl::StrCat(hardware, "; figures estimated from its clocks"),
          .hardware = hardware,
          .matrix_flops = 0.75 * peak,
          .other_flops = 0.1 * peak,
          .memory_bytes_per_second = memory,
          .kernel_overhead_ns = 3000,
          .copy = {2000, memory / 2},
          .add = {2000, memory / 3},
          .fill = {2000, memory},
          .precision_rates = EstimateRates(gpu, hertz)};
}

// A lane of PCIe 3.0 carries 0.985 GB/s, each generation after it twice as much; four fifths are
// seen by copies. Unknown: 3.0 with 16 lanes.
int64_t PcieBytesPerSecond(const GpuProperties& gpu) {
  const int generation = gpu.pcie_generation > 0 ? std::min(gpu.pcie_generation, 8) : 3;
  const int width = gpu.pcie_width > 0 ? gpu.pcie_width : 16;
  double lane = 0.985e9;
  for (int g = 3; g < generation; ++g) lane *= 2;
  for (int g = generation; g < 3; ++g) lane /= 2;
  return static_cast<int64_t>(0.8 * lane * width);
}

void AddClass(DeviceClass one, std::vector<DeviceClass>& classes) {
  const bool known = std::any_of(classes.begin(), classes.end(),
                                 [&](const DeviceClass& c) { return c.name == one.name; });
  if (!known) classes.push_back(std::move(one));
}

}  // namespace

std::string HardwareText(const GpuProperties& gpu, const std::string& driver) {
  return absl::StrCat(gpu.name, ", ", gpu.memory.value() >> 20, " MiB, ", gpu.multiprocessors,
                      " multiprocessors, clock ", gpu.clock_mhz, " MHz, memory clock ",
                      gpu.memory_clock_mhz, " MHz, driver ", driver);
}

std::string ClassNameOf(const GpuProperties& gpu) {
  std::string name = absl::AsciiStrToLower(gpu.name);
  name = std::string(absl::StripPrefix(absl::StripPrefix(name, "nvidia "), "tesla "));
  name = absl::StrReplaceAll(name, {{" ", "-"}});
  return name.empty() ? "gpu" : name;
}

absl::StatusOr<Machine> MachineOf(const GpuHost& host, const GpuMachineOptions& options,
                                  const std::optional<Machine>& cores) {
  const int all = static_cast<int>(host.gpus.size());
  const int count = options.gpus.value_or(all);
  if (count < 1 || count > all) {
    return absl::InvalidArgumentError(
        absl::StrCat("this host has ", all, " GPUs; ", count, " were asked for"));
  }
  Machine machine{.name = "local"};
  std::vector<Device> devices;
  std::vector<Link> links;
  for (int g = 0; g < count; ++g) {
    const GpuProperties& gpu = host.gpus[static_cast<size_t>(g)];
    const std::string name = absl::StrCat("gpu", g);
    const double memory = options.memory_fraction * static_cast<double>(gpu.memory.value());
    devices.push_back({.name = name,
                       .kind = DeviceKind::kGpu,
                       .device_class = ClassNameOf(gpu),
                       .memory = Bytes(static_cast<int64_t>(memory))});
    links.push_back({.name = absl::StrCat(name, ".pcie"),
                     .ends = {name, "memory"},
                     .bytes_per_second = PcieBytesPerSecond(gpu),
                     .latency = Nanos(5000)});
    AddClass(EstimateClass(gpu, host.driver), machine.classes);
  }
  machine.description = absl::StrCat(count, " x ", HardwareText(host.gpus[0], host.driver));
  if (cores.has_value()) {
    for (const Device& device : cores->topology.devices()) devices.push_back(device);
    for (const Link& link : cores->topology.links()) links.push_back(link);
    if (cores->topology.size() == 1) {  // a single device exchanges with none
      links.push_back(
          {.name = absl::StrCat(devices.back().name, ".port"),
           .ends = {devices.back().name, "memory"},
           .bytes_per_second = static_cast<int64_t>(cores->classes[0].copy.bytes_per_second),
           .latency = Nanos(2500)});
    }
    for (const DeviceClass& one : cores->classes) AddClass(one, machine.classes);
    absl::StrAppend(&machine.description, "; ", cores->description);
  }
  ASSIGN_OR_RETURN(machine.topology, DeviceTopology::Create(std::move(devices), std::move(links)));
  RETURN_IF_ERROR(Validate(machine));
  return machine;
}

}  // namespace partita

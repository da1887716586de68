#include "cost_model/discovery.h"

#include <hwloc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/memory.h"
#include "graph/support/number_in.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int kMaxDevices = 1024;

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using HostTopology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

absl::StatusOr<HostTopology> LoadTopology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return absl::InternalError("hwloc cannot start; set the machine by --machine FILE instead");
  }
  HostTopology topology(raw);
  if (hwloc_topology_load(raw) != 0) {
    return absl::InternalError(
        "hwloc cannot examine this host; set the machine by --machine FILE instead");
  }
  return topology;
}

struct BitmapDeleter {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};

// The first processor of each core that this process may run on.
std::vector<int> UsableCores(hwloc_topology_t topology) {
  std::unique_ptr<hwloc_bitmap_s, BitmapDeleter> bound(hwloc_bitmap_alloc());
  const bool known =
      hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) == 0 &&
      hwloc_bitmap_intersects(bound.get(), hwloc_topology_get_topology_cpuset(topology));
  if (!known) hwloc_bitmap_copy(bound.get(), hwloc_topology_get_allowed_cpuset(topology));
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  std::vector<int> cores;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology, type, core)) != nullptr;) {
    std::unique_ptr<hwloc_bitmap_s, BitmapDeleter> usable(hwloc_bitmap_dup(core->cpuset));
    hwloc_bitmap_and(usable.get(), usable.get(), bound.get());
    const int first = hwloc_bitmap_first(usable.get());
    if (first >= 0) cores.push_back(first);
  }
  std::sort(cores.begin(), cores.end());
  return cores;
}

int64_t LastLevelCacheBytes(hwloc_topology_t topology) {
  const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, HWLOC_OBJ_L3CACHE, 0);
  return cache == nullptr || cache->attr == nullptr ? 0
                                                    : static_cast<int64_t>(cache->attr->cache.size);
}

// Where a control group keeps its quota of processor time, of either version.
std::optional<int> CoresOfGroup() {
  std::string text;
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); std::getline(file, text)) {
    return CoresOfQuota(text);
  }
  const int64_t quota = NumberIn("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const int64_t period = NumberIn("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  return CoresOfQuota(absl::StrCat(quota, " ", period));
}

constexpr int64_t kMaxCpuInfoBytes = int64_t{1} << 26;

// What the kernel says of the processors; empty where it says nothing. What cannot be read is an
// error, as this host would be taken for another one.
absl::StatusOr<std::string> ReadCpuInfo() {
  absl::StatusOr<std::string> text = ReadFile("/proc/cpuinfo", kMaxCpuInfoBytes);
  if (absl::IsNotFound(text.status())) return "";
  return text;
}

// The first line "KEY : VALUE" of ReadCpuInfo's text with one of the keys.
std::string CpuInfo(absl::string_view text, std::initializer_list<absl::string_view> keys) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() != 2) continue;
    const absl::string_view key = absl::StripAsciiWhitespace(parts[0]);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      return std::string(absl::StripAsciiWhitespace(parts[1]));
    }
  }
  return "";
}

// The clock that the processor is made for, in MHz, not that of the moment: a machine is the same
// in every process that examines it, and so are its prices. The kernel's own figures come first,
// then the name of the processor ("... CPU @ 2.80GHz"), its fastest clock, and at last the clock of
// the moment: all that a virtual machine may know, where it does not change. 0 if unknown.
double RatedMegahertz(const std::string& model, absl::string_view cpu_info) {
  constexpr absl::string_view kFolder = "/sys/devices/system/cpu/cpu0/";
  constexpr std::pair<absl::string_view, double> kFigures[] = {
      {"cpufreq/base_frequency", 1e-3},
      {"acpi_cppc/nominal_freq", 1},
  };
  for (const auto& [name, megahertz] : kFigures) {
    const int64_t figure = NumberIn(absl::StrCat(kFolder, name).c_str());
    if (figure > 0) return static_cast<double>(figure) * megahertz;
  }
  double figure = 0;
  const std::vector<std::string> parts = absl::StrSplit(model, "@ ");
  if (parts.size() == 2 && absl::EndsWith(parts[1], "GHz") &&
      absl::SimpleAtod(absl::StripSuffix(parts[1], "GHz"), &figure) && figure > 0) {
    return 1000 * figure;
  }
  const int64_t most = NumberIn(absl::StrCat(kFolder, "cpufreq/cpuinfo_max_freq").c_str());
  if (most > 0) return static_cast<double>(most) * 1e-3;
  return absl::SimpleAtod(CpuInfo(cpu_info, {"cpu MHz"}), &figure) ? figure : 0;
}

// Gives the host its vector width; returns the name of the widest instructions.
absl::string_view ReadVectorUnit(Host& host, absl::string_view cpu_info) {
  const std::string flags = CpuInfo(cpu_info, {"flags", "Features"});
  const std::vector<absl::string_view> words = absl::StrSplit(flags, ' ');
  const auto has = [&](absl::string_view flag) {
    return std::find(words.begin(), words.end(), flag) != words.end();
  };
  host.has_fma = has("fma") || has("asimd");
  if (has("avx512f")) return host.float_lanes = 16, "avx512f";
  if (has("avx2")) return host.float_lanes = 8, "avx2";
  if (has("avx")) return host.float_lanes = 8, "avx";
  return host.float_lanes = 4, has("asimd") ? "asimd" : "sse2";
}

// Estimates for one device of `threads` threads, from its clock: matrix arithmetic issues two
// vector multiply-adds per cycle and reaches three quarters of that. A core moves about 10 GB/s
// when all are busy.
DeviceClass EstimateClass(const Host& host, int threads) {
  const double hertz = (host.megahertz > 0 ? host.megahertz : 2500) * 1e6;
  const double peak = hertz * host.float_lanes * 2 * (host.has_fma ? 2 : 1) * threads;
  const double memory = 10e9 * threads;
  return {.name = "cpu",
          .description = absl::StrCat(host.hardware, "; figures estimated from its clock"),
          .hardware = host.hardware,
          .matrix_flops = 0.75 * peak,
          .other_flops = 0.1 * peak,
          .memory_bytes_per_second = memory,
          .kernel_overhead_ns = 2000,
          .copy = {300, memory / 2},
          .add = {300, memory / 3},
          .fill = {300, memory}};
}

// Each device reads what others sent at the speed of its own copying.
std::vector<Link> ExchangeLinks(std::span<const Device> devices, const Line& copy) {
  std::vector<Link> links;
  if (devices.size() < 2) return links;
  for (const Device& device : devices) {
    links.push_back({.name = absl::StrCat(device.name, ".port"),
                     .ends = {device.name, "memory"},
                     .bytes_per_second = static_cast<int64_t>(copy.bytes_per_second),
                     .latency = Nanos(2500)});
  }
  return links;
}

}  // namespace

std::optional<int> CoresOfQuota(absl::string_view quota) {
  const std::vector<absl::string_view> words = absl::StrSplit(quota, ' ', absl::SkipEmpty());
  int64_t used = 0, period = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &used) ||
      !absl::SimpleAtoi(words[1], &period) || used <= 0 || period <= 0) {
    return std::nullopt;
  }
  return static_cast<int>(std::clamp<int64_t>(used / period, 1, 1 << 20));
}

absl::StatusOr<Host> ExamineHost() {
  ASSIGN_OR_RETURN(const HostTopology topology, LoadTopology());
  Host host{.cores = UsableCores(topology.get()), .memory = Bytes(UsableMemory())};
  if (const std::optional<int> most = CoresOfGroup(); most.has_value()) {
    host.cores.resize(std::min(host.cores.size(), static_cast<size_t>(*most)));
  }
  if (host.cores.empty() || host.memory.value() <= 0) {
    return absl::InternalError(
        "hwloc finds no core or no memory that this process may use; set the machine by --machine "
        "FILE instead");
  }
  host.available = Bytes(AvailableMemory(host.memory.value()));
  ASSIGN_OR_RETURN(const std::string cpu_info, ReadCpuInfo());
  const absl::string_view vectors = ReadVectorUnit(host, cpu_info);
  std::string model = CpuInfo(cpu_info, {"model name", "Processor", "cpu model"});
  host.megahertz = RatedMegahertz(model, cpu_info);
  if (model.empty()) model = "unknown processor";
  const std::string number = CpuInfo(cpu_info, {"model"});
  host.hardware = absl::StrCat(model, number.empty() ? "" : absl::StrCat(" (model ", number, ")"),
                               ", ", host.cores.size(), " cores, L3 ",
                               LastLevelCacheBytes(topology.get()) >> 20, " MiB, ", vectors);
  return host;
}

absl::StatusOr<Machine> MachineOf(const Host& host, const DiscoverOptions& options) {
  const int cores = static_cast<int>(host.cores.size());
  const int count = options.devices.value_or(cores);
  if (count < 1 || count > kMaxDevices) {
    return UsageError(absl::StrCat("cannot divide this machine into ", count,
                                   " devices; wanted 1 to ", kMaxDevices));
  }
  if (count > cores && !options.oversubscribe) {
    return UsageError(absl::StrCat(
        "this process may use ", cores, cores == 1 ? " core" : " cores", ", and ", count,
        " devices are asked for. Try --devices ", cores,
        ", or --oversubscribe: devices then share cores, and none is faster than its share"));
  }
  const int threads = std::max(1, cores / count);
  const auto memory = static_cast<int64_t>(options.memory_fraction / count *
                                           static_cast<double>(host.memory.value()));
  std::vector<Device> devices;
  for (int d = 0; d < count; ++d) {
    Device device{.name = absl::StrCat("cpu", d), .memory = Bytes(memory), .threads = threads};
    for (int t = 0; t < threads; ++t) device.cores.push_back(host.cores[(d * threads + t) % cores]);
    devices.push_back(std::move(device));
  }
  Machine machine{.name = "local", .description = host.hardware};
  machine.classes.push_back(EstimateClass(host, threads));
  std::vector<Link> links = ExchangeLinks(devices, machine.classes[0].copy);
  ASSIGN_OR_RETURN(machine.topology, DeviceTopology::Create(std::move(devices), std::move(links)));
  RETURN_IF_ERROR(Validate(machine));
  return machine;
}

absl::StatusOr<Machine> DiscoverMachine(const DiscoverOptions& options) {
  ASSIGN_OR_RETURN(const Host host, ExamineHost());
  return MachineOf(host, options);
}

}  // namespace partita

#include "cost_model/machines.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cost_model/discovery.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

// Figures are of data sheets where one is named; the others are what such parts are commonly
// measured to do. Bandwidths are per direction.

namespace partita {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

absl::StatusOr<Machine> Finish(std::string name, std::string description,
                               std::vector<Device> devices, std::vector<Link> links,
                               DeviceClass device_class) {
  Machine machine{.name = std::move(name), .description = std::move(description)};
  ASSIGN_OR_RETURN(machine.topology, DeviceTopology::Create(std::move(devices), std::move(links)));
  machine.classes.push_back(std::move(device_class));
  RETURN_IF_ERROR(Validate(machine));
  return machine;
}

std::string GpuName(int node, int gpu) { return absl::StrCat("n", node, ".gpu", gpu); }

std::vector<Device> Gpus(int nodes, int per_node, absl::string_view device_class, Bytes memory) {
  std::vector<Device> devices;
  for (int n = 0; n < nodes; ++n) {
    for (int g = 0; g < per_node; ++g) {
      devices.push_back({.name = GpuName(n, g),
                         .kind = DeviceKind::kGpu,
                         .device_class = std::string(device_class),
                         .node = n,
                         .memory = memory});
    }
  }
  return devices;
}

// Every node's host to one switch of InfiniBand. Latency of a message between GPUs of two nodes
// through it: about 5 us with GPUDirect.
void AddInfiniBand(int nodes, int64_t bytes_per_second, std::vector<Link>& links) {
  for (int n = 0; n < nodes; ++n) {
    links.push_back({.name = absl::StrCat("n", n, ".ib"),
                     .ends = {absl::StrCat("n", n, ".host"), "ib"},
                     .bytes_per_second = bytes_per_second,
                     .latency = Nanos(1500)});
  }
}

// Tesla P100 SXM2 (NVIDIA's data sheet): 10.6 TFLOP/s in float32, 732 GB/s, 16 GB; NVLink 1.0: 20
// GB/s per brick and direction. 4 GPUs fully connected with one brick for each pair. PCIe 3.0 x16:
// 15.75 GB/s raw, 12 in use. 100 Gb/s InfiniBand EDR (FlexFlow, MLSys 2019, section 8.1).
absl::StatusOr<Machine> MakeP100() {
  constexpr int kNodes = 4, kPerNode = 4;
  std::vector<Link> links;
  for (int n = 0; n < kNodes; ++n) {
    for (int a = 0; a < kPerNode; ++a) {
      for (int b = a + 1; b < kPerNode; ++b) {
        links.push_back({.name = absl::StrCat("n", n, ".nvlink", a, b),
                         .ends = {GpuName(n, a), GpuName(n, b)},
                         .bytes_per_second = 20'000'000'000,
                         .latency = Nanos(4000)});
      }
      links.push_back({.name = absl::StrCat("n", n, ".pcie", a),
                       .ends = {GpuName(n, a), absl::StrCat("n", n, ".host")},
                       .bytes_per_second = 12'000'000'000,
                       .latency = Nanos(2000)});
    }
  }
  AddInfiniBand(kNodes, 12'500'000'000, links);
  return Finish("p100-4x4",
                "4 nodes of 4 Tesla P100 with NVLink, 100 Gb/s InfiniBand between nodes",
                Gpus(kNodes, kPerNode, "p100", Bytes(16 * kGiB)), std::move(links),
                {.name = "p100",
                 .description = "Tesla P100-SXM2-16GB",
                 .matrix_flops = 10.6e12,
                 .other_flops = 5.3e12,
                 .memory_bytes_per_second = 732e9,
                 .kernel_overhead_ns = 5000,
                 .copy = {5000, 270e9},
                 .add = {5000, 180e9},
                 .fill = {5000, 550e9}});
}

// Tesla K80 (NVIDIA's data sheet): a board holds two GPUs behind a PCIe switch; each has 2,496
// cores, 4.37 TFLOP/s in float32 at 875 MHz (boost), 240 GB/s, 12 GB. Two boards per node = 4 GPUs.
// 56 Gb/s InfiniBand FDR: 54.5 Gb/s of data after 64b/66b coding.
absl::StatusOr<Machine> MakeK80() {
  constexpr int kNodes = 16, kPerNode = 4, kPerBoard = 2;
  constexpr int64_t kPcie = 12'000'000'000;
  std::vector<Link> links;
  for (int n = 0; n < kNodes; ++n) {
    for (int g = 0; g < kPerNode; ++g) {
      const std::string board = absl::StrCat("n", n, ".board", g / kPerBoard);
      links.push_back({.name = absl::StrCat("n", n, ".pcie", g),
                       .ends = {GpuName(n, g), board},
                       .bytes_per_second = kPcie,
                       .latency = Nanos(3500)});
      if (g % kPerBoard != 0) continue;
      links.push_back({.name = absl::StrCat(board, ".pcie"),
                       .ends = {board, absl::StrCat("n", n, ".host")},
                       .bytes_per_second = kPcie,
                       .latency = Nanos(1000)});
    }
  }
  AddInfiniBand(kNodes, 6'800'000'000, links);
  return Finish("k80-16x4", "16 nodes of 4 Tesla K80 GPUs behind PCIe switches, 56 Gb/s InfiniBand",
                Gpus(kNodes, kPerNode, "k80", Bytes(12 * kGiB)), std::move(links),
                {.name = "k80",
                 .description = "one of the two GPUs of a Tesla K80",
                 .matrix_flops = 4.37e12,
                 .other_flops = 2.18e12,
                 .memory_bytes_per_second = 240e9,
                 .kernel_overhead_ns = 7000,
                 .copy = {7000, 85e9},
                 .add = {7000, 57e9},
                 .fill = {7000, 170e9}});
}

// Four hosts of 32 cores on one Ethernet switch: 16 AVX-512 cores' worth of matrix arithmetic, so
// that the network decides. For tests, and to plan for machines of that sort.
absl::StatusOr<Machine> MakeEthernet(std::string name, std::string description,
                                     int64_t bytes_per_second) {
  constexpr int kHosts = 4, kCores = 32;
  std::vector<Device> devices;
  std::vector<Link> links;
  for (int n = 0; n < kHosts; ++n) {
    Device host{.name = absl::StrCat("host", n),
                .device_class = "xeon32",
                .node = n,
                .memory = Bytes(64 * kGiB),
                .threads = kCores};
    for (int core = 0; core < kCores; ++core) host.cores.push_back(core);
    links.push_back({.name = absl::StrCat("eth", n),
                     .ends = {host.name, "switch"},
                     .bytes_per_second = bytes_per_second,
                     .latency = Nanos(25'000)});
    devices.push_back(std::move(host));
  }
  return Finish(std::move(name), std::move(description), std::move(devices), std::move(links),
                {.name = "xeon32",
                 .description = "a server of 32 cores",
                 .matrix_flops = 2.0e12,
                 .other_flops = 0.5e12,
                 .memory_bytes_per_second = 150e9,
                 .kernel_overhead_ns = 3000,
                 .copy = {1000, 60e9},
                 .add = {1000, 40e9},
                 .fill = {1000, 100e9}});
}

absl::StatusOr<Machine> MakeLocal() { return DiscoverMachine({}); }
absl::StatusOr<Machine> MakeEthernet1G() {
  return MakeEthernet("ethernet-4x1g", "4 servers of 32 cores on 1 Gb/s Ethernet", 125'000'000);
}
absl::StatusOr<Machine> MakeEthernet100M() {
  return MakeEthernet("ethernet-4x100m", "4 servers of 32 cores on 100 Mb/s Ethernet", 12'500'000);
}

constexpr NamedMachine kMachines[] = {
    {"local", MakeLocal, "this machine, one device for each core"},
    {"p100-4x4", MakeP100, "4 nodes x 4 Tesla P100, NVLink inside, 100 Gb/s InfiniBand between"},
    {"k80-16x4", MakeK80, "16 nodes x 4 Tesla K80, PCIe switches, 56 Gb/s InfiniBand between"},
    {"ethernet-4x1g", MakeEthernet1G, "4 servers of 32 cores on 1 Gb/s Ethernet"},
    {"ethernet-4x100m", MakeEthernet100M, "4 servers of 32 cores on 100 Mb/s Ethernet"},
};

}  // namespace

absl::Span<const NamedMachine> NamedMachines() { return kMachines; }

absl::StatusOr<Machine> FindMachine(const std::string& name_or_file, std::optional<int> devices,
                                    bool oversubscribe) {
  if (name_or_file == "local") {
    return DiscoverMachine({.devices = devices, .oversubscribe = oversubscribe});
  }
  if (oversubscribe) {
    return UsageError(absl::StrCat("--oversubscribe has devices share this host's cores; machine '",
                                   name_or_file,
                                   "' says itself what its devices are: leave it away"));
  }
  absl::StatusOr<Machine> machine = absl::NotFoundError("");
  if (name_or_file.find_first_of("/.") != std::string::npos) {
    machine = LoadMachine(name_or_file);
  } else {
    std::vector<absl::string_view> names;
    for (const NamedMachine& row : kMachines) {
      names.push_back(row.name);
      if (row.name == name_or_file) machine = row.make();
    }
    if (absl::IsNotFound(machine.status())) {
      return absl::NotFoundError(absl::StrCat("unknown machine '", name_or_file,
                                              "'; known are: ", absl::StrJoin(names, ", "),
                                              "; a file's name has a '/' or ends in .textproto"));
    }
  }
  if (!machine.ok() || !devices.has_value()) return machine;
  return TakeDevices(*machine, *devices);
}

}  // namespace partita

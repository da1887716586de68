#include "cost_model/machines.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cost_model/catalogue.h"
#include "cost_model/cluster.h"
#include "cost_model/discovery.h"
#include "graph/parallel/levels.h"
#include "graph/support/error_category.h"
#include "graph/support/known_names.h"
#include "graph/support/option.h"
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

// By the first number, of a cluster that is otherwise as described.
absl::StatusOr<Machine> MakeNodes(absl::Span<const int> numbers, ClusterRequest request) {
  request.nodes = numbers[0];
  return MakeCluster(request);
}

// NVIDIA DGX A100 data sheet (2021): eight A100 on NVSwitch, eight 200 Gb/s cards for them; DGX
// SuperPOD reference architecture (2021): 20 of them under a leaf for each card, full bandwidth
// above.
absl::StatusOr<Machine> MakeA100(absl::Span<const int> numbers) {
  return MakeNodes(numbers, {.gpu = "a100-sxm", .network = "200Gb/s", .nodes_per_leaf = 20});
}
// NVIDIA DGX H100 data sheet (2023): eight H100 on NVSwitch, eight 400 Gb/s cards for them; DGX
// SuperPOD reference architecture (2023): 32 of them under a leaf for each card, full bandwidth
// above. The DGX H200 (2024) likewise.
absl::StatusOr<Machine> MakeH100(absl::Span<const int> numbers) {
  return MakeNodes(numbers, {.gpu = "h100-sxm"});
}
absl::StatusOr<Machine> MakeH200(absl::Span<const int> numbers) {
  return MakeNodes(numbers, {.gpu = "h200-sxm"});
}
// NVIDIA GB200 NVL72 data sheet (2024): 72 B200 in one domain of NVLink, a 400 Gb/s card for each;
// DGX SuperPOD reference architecture (2024): eight racks make a unit.
absl::StatusOr<Machine> MakeB200(absl::Span<const int> numbers) {
  return MakeNodes(numbers, {.gpus = 72, .gpu = "b200", .nodes_per_leaf = 8});
}

// Levels with figures: a switch (kTree) or a network that serves the group alone.
TopologyLevel WiredLevel(std::string name, int count, LevelNetwork network, int64_t rate,
                         Nanos latency) {
  return {.name = std::move(name),
          .count = count,
          .network = network,
          .bytes_per_second = rate,
          .latency = latency};
}

absl::StatusOr<Machine> FinishLevels(Machine machine, TopologyLevels levels,
                                     DeviceClass device_class) {
  ASSIGN_OR_RETURN(machine.topology, DeviceTopology::Create(std::move(levels)));
  machine.classes.push_back(std::move(device_class));
  RETURN_IF_ERROR(Validate(machine));
  return machine;
}

absl::Status TooMany(absl::string_view family, int64_t devices) {
  return UsageError(absl::StrCat("a machine ", family, " of ", devices,
                                 " devices is too large; wanted at most 131072"));
}

// IBM Power System S822LC for High Performance Computing ("Minsky"; Redpaper REDP-5405, 2016): two
// Power8, four P100; NVLink bricks of 20 GB/s, two between the GPUs of a processor and two from each
// GPU to its processor; 38.4 GB/s between the processors. One 100 Gb/s InfiniBand EDR card on each
// node, 64 of them under full bandwidth as in Cho et al. (PowerAI DDL, arXiv:1708.02188, 2017).
absl::StatusOr<Machine> MakeMinsky(absl::Span<const int> numbers) {
  constexpr int kPerNode = 4;
  const int64_t count = int64_t{numbers[0]} * kPerNode;
  if (count > (1 << 17)) return TooMany("minsky-Nx4", count);
  const AcceleratorModel& p100 = *FindAccelerator("p100-sxm");
  constexpr int64_t kTwoBricks = 40'000'000'000;
  TopologyLevels levels;
  levels.devices = {{{.name = "gpu",
                      .kind = DeviceKind::kGpu,
                      .device_class = "p100",
                      .memory = Bytes(p100.memory_bytes)},
                     static_cast<int>(count)}};
  levels.levels = {
      WiredLevel("pair", 2, LevelNetwork::kAllPairs, kTwoBricks, Nanos(4000)),
      WiredLevel("cpu", 1, LevelNetwork::kTree, kTwoBricks, Nanos(2000)),
      WiredLevel("host", 2, LevelNetwork::kTree, 38'400'000'000, Nanos(250)),
      WiredLevel("ib", numbers[0], LevelNetwork::kTree, 12'500'000'000, Nanos(1500)),
  };
  levels.levels[2].is_node = true;
  return FinishLevels({.name = absl::StrCat("minsky-", numbers[0], "x4"),
                       .description = absl::StrCat(numbers[0],
                                                   " IBM Minsky nodes of 4 Tesla P100 with NVLink, "
                                                   "100 Gb/s InfiniBand between nodes")},
                      std::move(levels), ClassOf(p100));
}

// TPU v4 (Jouppi et al., ISCA 2023): 275 TFLOP/s in bfloat16, 32 GiB at 1,200 GB/s, four chips on a
// host, six links of 50 GB/s to neighbours in a 3-D torus. Products in float32 take six in bfloat16
// (XLA's highest precision); other arithmetic: two cores with 128 lanes of 16 units at 1.05 GHz. A
// hop between neighbours takes about 1 us.
absl::StatusOr<Machine> MakeTpu(absl::Span<const int> numbers) {
  int64_t count = 1;
  for (int number : numbers) count = std::min(count * number, int64_t{1} << 40);
  if (count > (1 << 17)) return TooMany("tpu-NxMxK", count);
  constexpr int kPerHost = 4;
  TopologyLevels levels;
  levels.devices = {{{.name = "tpu",
                      .kind = DeviceKind::kGpu,
                      .device_class = "tpu_v4",
                      .memory = Bytes(32 * kGiB)},
                     static_cast<int>(count)}};
  if (count % kPerHost == 0) levels.levels.push_back({.name = "host", .count = kPerHost});
  if (count % kPerHost == 0) levels.levels[0].is_node = true;
  levels.levels.push_back(
      WiredLevel("ici", static_cast<int>(count % kPerHost == 0 ? count / kPerHost : count),
                 LevelNetwork::kTorus, 50'000'000'000, Nanos(1000)));
  levels.levels.back().extents = {numbers.begin(), numbers.end()};
  const std::string size = absl::StrJoin(numbers, "x");
  return FinishLevels({.name = absl::StrCat("tpu-", size),
                       .description = absl::StrCat("a torus of ", size, " chips like TPU v4")},
                      std::move(levels),
                      {.name = "tpu_v4",
                       .description = "a chip like TPU v4",
                       .matrix_flops = 275e12 / 6,
                       .other_flops = 4.3e12,
                       .memory_bytes_per_second = 1200e9,
                       .kernel_overhead_ns = 2000,
                       .copy = {2000, 0.37 * 1200e9},
                       .add = {2000, 0.25 * 1200e9},
                       .fill = {2000, 0.75 * 1200e9},
                       .precision_rates = {{Precision::kBfloat16, 275e12}}});
}

// Servers as in ethernet-4x1g, on 10 Gb/s. Racks of 48 under a switch with four 40 Gb/s ports to the
// spine (as data sheets of such switches have it): 3 to 1 over-subscribed.
absl::StatusOr<Machine> MakeEthernetRacks(absl::Span<const int> numbers) {
  constexpr int kPerRack = 48;
  const int count = numbers[0];
  if (count > (1 << 17)) return TooMany("ethernet-N", count);
  ASSIGN_OR_RETURN(const Machine four, MakeEthernet1G());
  Device server = four.topology.device(DeviceId(0));
  server.name = "host";
  TopologyLevels levels{.devices = {{std::move(server), count}},
                        .levels = {{.name = "server", .count = 1}}};
  levels.levels[0].is_node = true;
  levels.levels.push_back(WiredLevel("rack", std::min(count, kPerRack), LevelNetwork::kTree,
                                     1'250'000'000, Nanos(25'000)));
  if (count > kPerRack) {
    levels.levels.push_back(WiredLevel("spine", (count - 1) / kPerRack + 1, LevelNetwork::kTree,
                                       20'000'000'000, Nanos(1000)));
  }
  return FinishLevels({.name = absl::StrCat("ethernet-", count),
                       .description = absl::StrCat(count,
                                                   " servers of 32 cores on 10 Gb/s "
                                                   "Ethernet, racks of 48")},
                      std::move(levels), four.classes[0]);
}

constexpr MachineFamily kFamilies[] = {
    {"minsky-Nx4", MakeMinsky, "N IBM Minsky nodes x 4 Tesla P100, NVLink, 100 Gb/s InfiniBand",
     "minsky-32x4"},
    {"a100-Nx8", MakeA100, "N nodes x 8 A100 on NVSwitch, 8 x 200 Gb/s InfiniBand each, rails",
     "a100-4x8"},
    {"h100-Nx8", MakeH100, "N nodes x 8 H100 on NVSwitch, 8 x 400 Gb/s InfiniBand each, rails",
     "h100-4x8"},
    {"h200-Nx8", MakeH200, "N nodes x 8 H200 on NVSwitch, 8 x 400 Gb/s InfiniBand each, rails",
     "h200-4x8"},
    {"b200-Nx72", MakeB200, "N racks x 72 B200 in one NVLink domain, 400 Gb/s InfiniBand for each",
     "b200-2x72"},
    {"tpu-NxMxK", MakeTpu, "chips like TPU v4 in a torus of N x M x K", "tpu-4x4x4"},
    {"ethernet-N", MakeEthernetRacks, "N servers of 32 cores on 10 Gb/s Ethernet, racks of 48",
     "ethernet-96"},
};

// The numbers for which a name stands in a family; nullopt where it is of another one.
std::optional<std::vector<int>> NumbersOf(absl::string_view family, absl::string_view name) {
  std::vector<int> numbers;
  for (char c : family) {
    if (!absl::ascii_isupper(static_cast<unsigned char>(c))) {
      if (!absl::ConsumePrefix(&name, absl::string_view(&c, 1))) return std::nullopt;
      continue;
    }
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    int number = 0;
    if (digits > 6 || !absl::SimpleAtoi(name.substr(0, digits), &number) || number < 1) {
      return std::nullopt;
    }
    numbers.push_back(number);
    name.remove_prefix(digits);
  }
  if (!name.empty()) return std::nullopt;
  return numbers;
}

}  // namespace

absl::Span<const NamedMachine> NamedMachines() { return kMachines; }
absl::Span<const MachineFamily> MachineFamilies() { return kFamilies; }

bool IsMachineName(absl::string_view name) {
  return absl::c_any_of(kMachines, [name](const auto& row) { return row.name == name; }) ||
         absl::c_any_of(kFamilies,
                        [name](const auto& row) { return NumbersOf(row.name, name).has_value(); });
}

std::vector<std::string> MachineNames() {
  std::vector<std::string> names = NamesOf(kMachines);
  for (std::string& family : NamesOf(kFamilies)) names.push_back(std::move(family));
  return names;
}

std::string UnknownMachineText(const std::string& name) {
  return absl::StrCat(UnknownNameText("machine", name, MachineNames()),
                      " (a capital stands for a number)");
}

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
    for (const NamedMachine& row : kMachines) {
      if (row.name == name_or_file) machine = row.make();
    }
    for (const MachineFamily& row : kFamilies) {
      const auto numbers = NumbersOf(row.name, name_or_file);
      if (numbers.has_value()) machine = row.make(*numbers);
    }
    if (absl::IsNotFound(machine.status())) {
      return absl::NotFoundError(absl::StrCat(UnknownMachineText(name_or_file),
                                              " (a file's name has a '/' or ends in .textproto)"));
    }
  }
  if (!machine.ok() || !devices.has_value()) return machine;
  return TakeDevices(*machine, *devices);
}

}  // namespace partita

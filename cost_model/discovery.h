#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cost_model/machine.h"
#include "graph/support/strong_int.h"

namespace partita {

// Resources of the host that this process may use: the cores left to it by affinity masks and
// cgroups, no more of them than the cgroup's quota of processor time keeps busy, and memory up to
// the cgroup's limit.
struct Host {
  std::string hardware;    // "Intel(R) Xeon(R) Processor, 2 cores, L3 260 MiB, avx512f"
  std::vector<int> cores;  // one logical processor number for each core, ascending
  Bytes memory;
  Bytes available;       // part of `memory` that no process holds at present
  double megahertz = 0;  // nominal clock; 0 if unknown
  int float_lanes = 4;   // float32 lanes of the widest vector instructions
  bool has_fma = false;
};
// Internal if the host cannot be examined.
absl::StatusOr<Host> ExamineHost();

// The cores that a quota of processor time keeps busy, at least 1: "150000 100000" (of so many
// microseconds) is 1, as cgroups write it. nullopt for "max", -1 and what is no quota.
std::optional<int> CoresOfQuota(absl::string_view quota);

struct DiscoverOptions {
  // Number of devices; default one for each core. Cores are divided evenly, in order, and what does
  // not divide stays idle.
  std::optional<int> devices;
  // More devices than cores may be asked for; they then share cores in turn.
  bool oversubscribe = false;
  // The part of the memory that tensors of all devices may take together.
  double memory_fraction = 0.8;
};

// Describes this host as a machine named "local": CPU devices that exchange through memory. Its
// figures are estimated from clock and instruction set until ApplyRates puts measured ones in their
// place. UsageError if the number of devices is not in 1..1024, or above that of the cores without
// `oversubscribe`.
absl::StatusOr<Machine> DiscoverMachine(const DiscoverOptions& options);
absl::StatusOr<Machine> MachineOf(const Host& host, const DiscoverOptions& options);

// Rates of the devices of one class, all of them busy, as a profiler measures them. Absent: not
// measured.
struct MeasuredRates {
  std::optional<double> matrix_flops;               // of products in float32
  std::vector<PrecisionRate> precision_rates = {};  // of those in other precisions
  std::optional<double> other_flops;
  std::optional<double> memory_bytes_per_second;
  std::optional<double> kernel_overhead_ns;
  std::optional<Line> copy, add, fill;
  // A message between two devices of the node.
  std::optional<Line> exchange;
  std::vector<CollectiveRate> collective_rates;
};

// Puts measured figures into the machine: class figures into the class of that name, `exchange`
// into the links that devices of that class and no others end in (per device; links with switches
// at both ends stay, and those next to which there are devices of several nodes), and collective
// rates in place of those for the same algorithm, ranks and class. NotFound if there is no such
// class, InvalidArgument if a figure is not positive.
absl::StatusOr<Machine> ApplyRates(Machine machine, const std::string& device_class,
                                   const MeasuredRates& rates);

}  // namespace partita

#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cost_model/machine.h"
#include "graph/parallel/gpu_host.h"

namespace partita {

// Hardware key of profile records of a GPU: "NVIDIA H200, 143771 MiB, 132 multiprocessors, clock
// 1980 MHz, memory clock 3201 MHz, driver 580.159.03". The clocks are the highest that the GPU may
// take; where they are lowered for good, that is other hardware.
std::string HardwareText(const GpuProperties& gpu, const std::string& driver);

// "h200" for "NVIDIA H200", "a100-sxm4-40gb" for "NVIDIA A100-SXM4-40GB".
std::string ClassNameOf(const GpuProperties& gpu);

struct GpuMachineOptions {
  std::optional<int> gpus;  // the first so many; default all
  // The part of a GPU's memory that tensors may take: libraries and the driver's state lie there.
  double memory_fraction = 0.9;
};

// The GPUs as a machine named "local", one class for each kind of GPU, each on its own PCIe link to
// the vertex "memory". With `cores`, a machine of CPU devices (MachineOf of a Host), its devices
// come after the GPUs. Figures are estimated from clocks and widths until ApplyRates puts measured
// ones in their place. InvalidArgument if there are not so many GPUs.
absl::StatusOr<Machine> MachineOf(const GpuHost& host, const GpuMachineOptions& options,
                                  const std::optional<Machine>& cores = {});

}  // namespace partita

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/support/strong_int.h"

namespace partita {

// One GPU as its driver describes it. Numbers that the driver does not report are 0.
struct GpuProperties {
  int index = 0;             // CUDA's number of the GPU in this process
  std::string name;          // "NVIDIA H200"
  Bytes memory;              // all that it has
  Bytes available;           // part of `memory` that no process holds at present
  int major = 0, minor = 0;  // compute capability: 9, 0
  int multiprocessors = 0;
  int clock_mhz = 0;  // highest clock of the multiprocessors
  int memory_clock_mhz = 0;
  int memory_bus_bits = 0;
  int64_t l2_bytes = 0;
  int pcie_generation = 0, pcie_width = 0;  // the best that GPU and slot can do

  friend bool operator==(const GpuProperties&, const GpuProperties&) = default;
};

// The GPUs of a host with the software that drives them.
struct GpuHost {
  std::string driver;           // "580.159.03", or the newest CUDA that it knows: "CUDA 13.0"
  std::string cudnn, cublaslt;  // versions, or why the library is not there
  std::vector<GpuProperties> gpus;

  friend bool operator==(const GpuHost&, const GpuHost&) = default;
};

}  // namespace partita

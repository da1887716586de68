#include "graph/support/status_macros.h"
#include "runtime/backend/gpus.h"
#include "tests/gpu/sections.h"

namespace partita {
namespace {

Json Described(const GpuProperties& gpu, const GpuActivity& now) {
  return {{"index", gpu.index},
          {"name", gpu.name},
          {"memory_bytes", gpu.memory.value()},
          {"available_bytes", gpu.available.value()},
          {"compute_capability", {gpu.major, gpu.minor}},
          {"multiprocessors", gpu.multiprocessors},
          {"clock_mhz", gpu.clock_mhz},
          {"memory_clock_mhz", gpu.memory_clock_mhz},
          {"memory_bus_bits", gpu.memory_bus_bits},
          {"l2_bytes", gpu.l2_bytes},
          {"pcie_generation", gpu.pcie_generation},
          {"pcie_width", gpu.pcie_width},
          {"now",
           {{"clock_mhz", now.clock_mhz},
            {"memory_clock_mhz", now.memory_clock_mhz},
            {"celsius", now.celsius},
            {"milliwatts", now.milliwatts}}}};
}

}  // namespace

absl::StatusOr<SectionFindings> ExamineMachine(const SuiteOptions&) {
  ASSIGN_OR_RETURN(const GpuHost host, ExamineGpus());
  SectionFindings findings;
  findings.details = {{"driver", host.driver},
                      {"cudnn", host.cudnn},
                      {"cublaslt", host.cublaslt},
                      {"gpus", Json::array()}};
  for (const GpuProperties& gpu : host.gpus) {
    ASSIGN_OR_RETURN(const GpuActivity now, ExamineGpuActivity(gpu.index));
    findings.details["gpus"].push_back(Described(gpu, now));
  }
  return findings;
}

}  // namespace partita

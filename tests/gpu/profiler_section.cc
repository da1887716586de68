#include "cost_model/profile.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "runtime/profiler/host_copy_profiler.h"
#include "runtime/profiler/kernel_profiler.h"
#include "tests/gpu/sections.h"
#include "tools/workflow/profiling/machine_measurement.h"
#include "tools/workflow/profiling/profiling_session.h"

namespace partita {
namespace {

const std::vector<int64_t> kCopies = {4, 1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 26};  // bytes

double MedianMicroseconds(const std::vector<int64_t>& samples) {
  return static_cast<double>(TimingOf(samples).median_ns) / 1e3;
}

}  // namespace

absl::StatusOr<SectionFindings> ProfileWork(const SuiteOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Backend> backend, MakeBackend(options.backend));
  const PlacedDevice device{backend, {}};
  SectionFindings findings;
  findings.details = {{"kernels", Json::array()}, {"host_copies", Json::array()}};
  {
    ASSIGN_OR_RETURN(const auto profiler, KernelProfiler::Open({&device, 1}));
    const std::vector<ProfiledWork> works = TypicalWork();
    ProfilerOptions profiling;
    profiling.warm = true;
    profiling.footprint = int64_t{1} << 30;  // a step of AlexNet; more than any cache
    ASSIGN_OR_RETURN(const auto measured, profiler->Measure(works, profiling));
    for (size_t k = 0; k < works.size(); ++k) {
      findings.details["kernels"].push_back(
          {{"work", RecordOfWork(works[k]).signature},
           {"cold_us", MedianMicroseconds(measured[k].samples_ns)},
           {"warm_us", MedianMicroseconds(measured[k].warm_ns)}});
    }
  }
  ASSIGN_OR_RETURN(const auto copies, MeasureHostCopies(device, kCopies, {}));
  for (const HostCopy& copy : copies) {
    const double us = MedianMicroseconds(copy.samples_ns);
    findings.details["host_copies"].push_back(
        {{"memory", copy.pinned ? "pinned" : "pageable"},
         {"direction", copy.to_device ? "to the device" : "from the device"},
         {"bytes", copy.bytes},
         {"us", us},
         {"bytes_per_second", 1e6 * static_cast<double>(copy.bytes) / us}});
  }
  if (options.backend == "cuda") {  // a machine file, as `partita machine discover` writes it
    options.so_far(findings);
    ASSIGN_OR_RETURN(const MeasuredMachine measured, MeasureMachine({.gpus = 1}));
    findings.details["machine"] = MeasuredMachineText(measured);
  }
  return findings;
}

}  // namespace partita

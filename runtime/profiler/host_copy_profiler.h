#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/backend/backend.h"
#include "runtime/profiler/measurement.h"

namespace partita {

// Copies of so many bytes between host memory and a device.
struct HostCopy {
  bool pinned = false;     // BackendDevice::AllocateHost, else memory as new gives it
  bool to_device = false;  // true: to the device; false: from it
  int64_t bytes = 0;
  std::vector<int64_t> samples_ns;  // times from the call until the host knows that the copy has
                                    // ended
};

// Every combination at each of the sizes, which are multiples of 4. Pageable memory was touched
// before, as a batch that a loader has just read was.
absl::StatusOr<std::vector<HostCopy>> MeasureHostCopies(const PlacedDevice& device,
                                                        const std::vector<int64_t>& sizes,
                                                        const ProfilerOptions& options);

}  // namespace partita

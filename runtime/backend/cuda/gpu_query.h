#pragma once

#include "absl/status/statusor.h"
#include "graph/parallel/gpu_host.h"
#include "runtime/backend/gpu_activity.h"

namespace partita {

// What CUDA's runtime and, where there is one, NVML (the driver's library for watching GPUs, opened
// at run time) say. Unavailable where there is no driver or no GPU.
absl::StatusOr<GpuHost> QueryGpus();
// At least 1.
absl::StatusOr<int> CountGpus();
// Zeros without NVML. InvalidArgument for a GPU that is not there.
absl::StatusOr<GpuActivity> QueryGpuActivity(int index);

}  // namespace partita

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "graph/parallel/gpu_host.h"
#include "runtime/backend/gpu_activity.h"

namespace partita {

// Properties of the GPUs, as CUDA's runtime and, where there is one, NVML (the driver's library for
// monitoring GPUs, opened at run time) report them. Unavailable where there is no driver or no GPU.
absl::StatusOr<GpuHost> QueryGpus();
// Name of a GPU, without a context on any. InvalidArgument for a GPU that is not there.
absl::StatusOr<std::string> QueryGpuName(int index);
// Number of GPUs, at least 1.
absl::StatusOr<int> CountGpus();
// Zeros without NVML. InvalidArgument for a GPU that is not there.
absl::StatusOr<GpuActivity> QueryGpuActivity(int index);

}  // namespace partita

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "graph/parallel/gpu_host.h"
#include "runtime/backend/gpu_activity.h"

namespace partita {

// The GPUs that the cuda backend can open. Unavailable, with the reason, where it is not built into
// this program or there is no driver or no GPU.
absl::StatusOr<GpuHost> ExamineGpus();
// Name of the GPU of that index. Touches no other: several processes may have one each.
absl::StatusOr<std::string> GpuName(int index);
// Activity of the GPU of that index; zeros where NVML is missing.
absl::StatusOr<GpuActivity> ExamineGpuActivity(int index);

}  // namespace partita

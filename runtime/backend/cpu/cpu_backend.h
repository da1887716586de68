#pragma once

#include <memory>

#include "runtime/backend/backend.h"

namespace partita {

// The host's cores through oneDNN and own loops, float32. A device is a team of threads pinned to
// its cores. Its native format is channels-last for tensors of rank 4. What has no kernel here runs
// on the reference kernel, on one thread.
std::unique_ptr<Backend> MakeCpuBackend();

}  // namespace partita

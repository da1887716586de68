#pragma once

#include <memory>

#include "runtime/backend/backend.h"

namespace partita {

// NVIDIA GPUs. Unavailable says whether the driver, the GPU or a library is missing.
std::unique_ptr<Backend> MakeCudaBackend();

}  // namespace partita

#pragma once

#include <memory>

#include "runtime/backend/backend.h"

namespace partita {

// Plain loops on one thread, for every type and operator: the oracle, and the template for other
// backends.
std::unique_ptr<Backend> MakeReferenceBackend();

}  // namespace partita

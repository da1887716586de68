#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace partita {

// The MPI library's own all-reduce, in place, over all ranks: what ours is compared with. MPI has
// to be open (OpenMpiPort).
absl::Status LibraryAllReduce(float* values, int64_t count);

}  // namespace partita

#pragma once

#include <nccl.h>

#include "tests/testing/nccl_on_host/elements.h"

namespace partita::nccl_on_host {

// Place of the memory that calls name. Each library has one of the two: host_memory.cc and
// device_memory.cc.

// Operations on elements there. They have happened when a function returns.
const Elements& OwnElements();

// Returns when what was put on the stream before has run.
void AwaitStream(cudaStream_t stream);

}  // namespace partita::nccl_on_host

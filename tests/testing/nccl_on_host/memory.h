#pragma once

#include <nccl.h>

#include "tests/testing/nccl_on_host/elements.h"
#include "tests/testing/nccl_on_host/operation.h"

namespace partita::nccl_on_host {

// Place of the memory that calls name. Each library has one of the two: host_memory.cc and
// device_memory.cc.

// Operations on elements there. They have happened when a function returns.
const Elements& OwnElements();

// Returns when what was put on the stream before has run. Fails for a stream that is captured: calls
// here happen at once, and nothing of them is left for a graph.
Failure AwaitStream(cudaStream_t stream);

}  // namespace partita::nccl_on_host

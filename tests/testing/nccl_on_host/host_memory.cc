#include "tests/testing/nccl_on_host/memory.h"

namespace partita::nccl_on_host {

const Elements& OwnElements() { return HostElements(); }

// Streams of the host call when the work before has run.
Failure AwaitStream(cudaStream_t) { return {}; }

}  // namespace partita::nccl_on_host

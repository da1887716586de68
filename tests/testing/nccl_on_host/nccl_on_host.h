#pragma once

// libnccl_on_host.so: a TEST LIBRARY with NCCL's C functions. It is not NCCL and moves nothing
// between GPUs: ranks are threads of one process, memory is the host's, and a "stream" means "now,
// on this thread": a call (or the end of its group) returns when the elements have been moved. What
// it is for: to run programs that call NCCL where no GPU is, and to check how they call it. Types,
// meanings and names are those of <nccl.h>. Where ranks do not agree on an operation's kind, count,
// type, reduction or root, or on the order of calls, or wait for a rank that is aborted, destroyed
// or missing, all ranks of the communicator get an error, and ncclGetLastError says what differs;
// nobody waits for ever.
//
// Functions: ncclGetVersion, ncclGetErrorString, ncclGetLastError, ncclGetUniqueId,
// ncclCommInitRank, ncclCommInitRankConfig (blocking or not), ncclCommInitAll, ncclCommSplit (of
// splitShare, what is aborted together, and of blocking), ncclCommFinalize,
// ncclCommDestroy, ncclCommAbort, ncclCommGetAsyncError, ncclCommCount, ncclCommUserRank,
// ncclGroupStart, ncclGroupEnd, ncclAllReduce, ncclReduceScatter, ncclAllGather, ncclBroadcast,
// ncclReduce, ncclSend, ncclRecv. Sums fold in ascending order of ranks. Calls of communicators
// that do not block are in progress until all ranks have made them.
//
// libnccl_on_device.so is the same with the ranks on one GPU, whose memory the calls name: a call
// waits on the host for its stream, and for the GPU's copies; where its stream is captured it fails,
// and no other rank with it. libnccl_2_17_on_host.so is libnccl_on_host.so without ncclCommSplit.

#include <cstdint>

extern "C" {

// How long a call waits for a missing rank before it fails. At first 600 seconds.
void ncclOnHostSetTimeLimit(double seconds);

// Numbers of calls since the last time that they were asked for.
struct NcclOnHostCounts {
  int64_t connected;       // ranks that an id connects
  int64_t splits;          // ncclCommSplit
  int64_t looks;           // ncclCommGetAsyncError
  int64_t aborted;         // ncclCommAbort
  int64_t aborted_inside;  // ncclCommAbort of a communicator that a thread was in a call of, which
                           // NCCL does not allow
};
NcclOnHostCounts ncclOnHostTakeCounts();

}  // extern "C"

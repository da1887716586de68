#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "runtime/comm/nccl/nccl_library.h"

namespace partita {

// Handle in this process of one rank of an NCCL communicator, of one of two kinds:
//   connected by an id     never blocks its caller: calls go on in the background, and one who
//                          wants them on the stream looks until they are (Run)
//   split from another     blocks: a call returns when what it starts is on the stream
// A rank that blocks shares the flag that aborts it with the one that it was split from. So the
// abort of that one, in which no call is under way, ends the calls of this one. Calls and Abort
// may meet: an abort waits a moment for the calls under way, which then see it, and takes the
// handle from those that do not return.
class NcclRank {
 public:
  using Clock = std::chrono::steady_clock;

  explicit NcclRank(std::shared_ptr<const NcclLibrary> nccl) : nccl_(std::move(nccl)) {}
  ~NcclRank();
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  // Starts to connect with the other ranks of `id`, on the calling thread's current GPU.
  absl::Status StartToConnect(int ranks, const ncclUniqueId& id, int rank);
  // Starts to split, which all ranks of this one's communicator do in the same order: those of one
  // `color` become a communicator, with its ranks in the order of their keys. `part` becomes this
  // one's rank there and outlives the split; null: it has none, whatever the color.
  absl::Status StartToSplit(int color, int key, NcclRank* part);
  // Whether the connection stands, and what was split from it; an error if it never will.
  absl::StatusOr<bool> IsConnected();

  // Makes NCCL calls and waits until none is in progress: what they start is on its stream then.
  // Cancelled during and after an abort. `what` for messages.
  absl::Status Run(absl::FunctionRef<ncclResult_t(ncclComm_t)> calls, absl::string_view what);

  // The asynchronous error of the calls, or OK.
  absl::Status AsynchronousError();

  // Ends calls under way and refuses later ones. Two halves, so that many ranks share one wait.
  void RefuseCalls();
  void Abort(Clock::time_point wait_until);

  // Orderly ends: flushes, which may wait for the other ranks to do the same, then frees. The
  // handle is aborted where it was not flushed.
  void Finalize();
  void Destroy();

 private:
  void Adopt(ncclComm_t comm);
  ncclResult_t AwaitProgress(ncclComm_t comm, ncclResult_t result);

  const std::shared_ptr<const NcclLibrary> nccl_;
  std::mutex mutex_;
  std::condition_variable left_;
  ncclComm_t comm_ = nullptr;
  ncclComm_t split_ = nullptr;  // place for what is split from it
  NcclRank* part_ = nullptr;    // rank that this will be the handle of
  int inside_ = 0;              // calls under way
  std::atomic<bool> aborted_{false};
  std::atomic<bool> finalized_{false};
};

}  // namespace partita

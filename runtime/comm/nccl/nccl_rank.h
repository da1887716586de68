#pragma once

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

// Handle in this process of one rank of an NCCL communicator, of the kind that never blocks its
// caller (calls may go on in the background). Calls and Abort may meet: an abort waits a moment for
// the calls under way, which then see it, and takes the handle from those that do not return.
class NcclRank {
 public:
  using Clock = std::chrono::steady_clock;

  explicit NcclRank(std::shared_ptr<const NcclLibrary> nccl) : nccl_(std::move(nccl)) {}
  ~NcclRank();
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  // Starts to connect with the other ranks of `id`, on the calling thread's current GPU.
  absl::Status StartToConnect(int ranks, const ncclUniqueId& id, int rank);
  // Whether the connection stands; an error if it never will.
  absl::StatusOr<bool> IsConnected();

  // Makes NCCL calls and waits until none is in progress: what they start is on its stream then.
  // Cancelled during and after an abort. `what` for messages.
  absl::Status Run(absl::FunctionRef<ncclResult_t(ncclComm_t)> calls, absl::string_view what);

  // The asynchronous error of the calls, or OK.
  absl::Status AsynchronousError();

  // Ends calls under way and refuses later ones. Two halves, so that many ranks share one wait.
  void RefuseCalls();
  void Abort(Clock::time_point wait_until);

  // Orderly ends: flushes, then frees. The handle is aborted where that does not go well in time.
  void StartToFinalize();
  void Destroy(Clock::time_point wait_until);

 private:
  ncclResult_t AwaitProgress(ncclComm_t comm, ncclResult_t result, Clock::time_point until);

  const std::shared_ptr<const NcclLibrary> nccl_;
  std::mutex mutex_;
  std::condition_variable left_;
  ncclComm_t comm_ = nullptr;
  int inside_ = 0;  // calls under way
  std::atomic<bool> aborted_{false};
};

}  // namespace partita

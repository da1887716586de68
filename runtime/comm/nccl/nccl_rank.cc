#include "runtime/comm/nccl/nccl_rank.h"

#include <thread>
#include <utility>

#include "graph/support/error_category.h"

namespace partita {
namespace {

absl::Status Aborted() { return AbandonedError("another device failed"); }

// Between two looks at a call in progress.
void Pause(int looked) {
  if (looked < 100) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

NcclRank::~NcclRank() {
  RefuseCalls();
  Abort(Clock::now());
}

absl::Status NcclRank::StartToConnect(int ranks, const ncclUniqueId& id, int rank) {
  std::lock_guard lock(mutex_);
  if (aborted_) return Aborted();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result = nccl_->comm_init_rank_config(&comm_, ranks, id, rank, &config);
  if (result == ncclInProgress) return absl::OkStatus();
  return NcclStatus(*nccl_, result, nullptr, "a new communicator");
}

absl::StatusOr<bool> NcclRank::IsConnected() {
  std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return Aborted();
  ncclResult_t state = ncclSuccess;
  ncclResult_t result = nccl_->comm_get_async_error(comm_, &state);
  if (result == ncclSuccess) result = state;
  if (result == ncclInProgress) return false;
  if (result == ncclSuccess) return true;
  return NcclStatus(*nccl_, result, comm_, "a new communicator");
}

absl::Status NcclRank::Run(absl::FunctionRef<ncclResult_t(ncclComm_t)> calls,
                           absl::string_view what) {
  ncclComm_t comm = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (aborted_ || comm_ == nullptr) return Aborted();
    comm = comm_;
    ++inside_;
  }
  const ncclResult_t result = AwaitProgress(comm, calls(comm), Clock::time_point::max());
  std::lock_guard lock(mutex_);
  --inside_;
  left_.notify_all();
  if (aborted_) return Aborted();
  return NcclStatus(*nccl_, result, comm, what);
}

// Does not touch `comm` once it is aborted.
ncclResult_t NcclRank::AwaitProgress(ncclComm_t comm, ncclResult_t result,
                                     Clock::time_point until) {
  for (int looked = 0; result == ncclInProgress && !aborted_; ++looked) {
    if (until != Clock::time_point::max() && Clock::now() > until) break;
    Pause(looked);
    ncclResult_t state = ncclSuccess;
    result = nccl_->comm_get_async_error(comm, &state);
    if (result == ncclSuccess) result = state;
  }
  return result;
}

absl::Status NcclRank::AsynchronousError() {
  std::lock_guard lock(mutex_);
  if (aborted_ || comm_ == nullptr) return absl::OkStatus();
  ncclResult_t state = ncclSuccess;
  ncclResult_t result = nccl_->comm_get_async_error(comm_, &state);
  if (result == ncclSuccess) result = state;
  if (result == ncclInProgress) return absl::OkStatus();
  return NcclStatus(*nccl_, result, comm_, "an error beside the work");
}

void NcclRank::RefuseCalls() { aborted_ = true; }

void NcclRank::Abort(Clock::time_point wait_until) {
  std::unique_lock lock(mutex_);
  left_.wait_until(lock, wait_until, [this] { return inside_ == 0; });
  if (ncclComm_t comm = std::exchange(comm_, nullptr); comm != nullptr) {
    lock.unlock();
    (void)nccl_->comm_abort(comm);
  }
}

void NcclRank::StartToFinalize() {
  std::lock_guard lock(mutex_);
  if (aborted_ || comm_ == nullptr) return;
  const ncclResult_t result = nccl_->comm_finalize(comm_);
  if (result != ncclSuccess && result != ncclInProgress) aborted_ = true;
}

void NcclRank::Destroy(Clock::time_point wait_until) {
  std::unique_lock lock(mutex_);
  if (comm_ == nullptr) return;
  if (!aborted_ && AwaitProgress(comm_, ncclInProgress, wait_until) == ncclSuccess) {
    (void)nccl_->comm_destroy(std::exchange(comm_, nullptr));
    return;
  }
  lock.unlock();
  RefuseCalls();
  Abort(Clock::now());
}

}  // namespace partita

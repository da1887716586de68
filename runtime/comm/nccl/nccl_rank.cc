#include "runtime/comm/nccl/nccl_rank.h"

#include <thread>
#include <utility>

#include "graph/support/error_category.h"

namespace partita {
namespace {

absl::Status Aborted() { return AbandonedError("another device failed"); }

// Long enough for a call to be put on its stream, unless it has to connect with its peers first.
constexpr auto kWithoutSleep = std::chrono::milliseconds(2);

// Between two looks at a call that has been in progress since `start`.
void Pause(NcclRank::Clock::time_point start) {
  if (NcclRank::Clock::now() - start < kWithoutSleep) {
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
  if (nccl_->comm_split != nullptr) config.splitShare = 1;  // libraries before know no such field
  const ncclResult_t result = nccl_->comm_init_rank_config(&comm_, ranks, id, rank, &config);
  if (result == ncclInProgress) return absl::OkStatus();
  return NcclStatus(*nccl_, result, nullptr, "a new communicator");
}

absl::Status NcclRank::StartToSplit(int color, int key, NcclRank* part) {
  std::lock_guard lock(mutex_);
  if (aborted_ || comm_ == nullptr) return Aborted();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  part_ = part;
  const ncclResult_t result =
      nccl_->comm_split(comm_, part == nullptr ? NCCL_SPLIT_NOCOLOR : color, key, &split_, &config);
  if (result == ncclInProgress) return absl::OkStatus();
  return NcclStatus(*nccl_, result, comm_, "a split communicator");
}

absl::StatusOr<bool> NcclRank::IsConnected() {
  std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return Aborted();
  ncclResult_t state = ncclSuccess;
  ncclResult_t result = nccl_->comm_get_async_error(comm_, &state);
  if (result == ncclSuccess) result = state;
  if (result == ncclInProgress) return false;
  if (result != ncclSuccess) return NcclStatus(*nccl_, result, comm_, "a new communicator");
  if (part_ != nullptr) std::exchange(part_, nullptr)->Adopt(std::exchange(split_, nullptr));
  return true;
}

void NcclRank::Adopt(ncclComm_t comm) {
  std::lock_guard lock(mutex_);
  comm_ = comm;
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
  const ncclResult_t result = AwaitProgress(comm, calls(comm));
  std::lock_guard lock(mutex_);
  --inside_;
  left_.notify_all();
  if (aborted_) return Aborted();
  return NcclStatus(*nccl_, result, comm, what);
}

// Does not touch `comm` once it is aborted. Ranks that block are never in progress.
ncclResult_t NcclRank::AwaitProgress(ncclComm_t comm, ncclResult_t result) {
  const Clock::time_point start = result == ncclInProgress ? Clock::now() : Clock::time_point();
  while (result == ncclInProgress && !aborted_) {
    Pause(start);
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
  ncclComm_t comm = std::exchange(comm_, nullptr);
  lock.unlock();
  if (comm == nullptr) return;
  (void)nccl_->comm_abort(comm);
  // A split that was under way has ended with it, and may have left a communicator.
  if (split_ != nullptr) (void)nccl_->comm_abort(std::exchange(split_, nullptr));
}

void NcclRank::Finalize() {
  const absl::Status status =
      Run([this](ncclComm_t comm) { return nccl_->comm_finalize(comm); }, "the end");
  finalized_ = status.ok();
}

void NcclRank::Destroy() {
  {
    std::lock_guard lock(mutex_);
    if (comm_ != nullptr && finalized_ && !aborted_) {
      (void)nccl_->comm_destroy(std::exchange(comm_, nullptr));
      return;
    }
  }
  RefuseCalls();
  Abort(Clock::now());
}

}  // namespace partita

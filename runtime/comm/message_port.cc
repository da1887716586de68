#include "runtime/comm/message_port.h"

#include <sched.h>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {

absl::Status MessagePort::Exchange(std::span<const Message> messages, int tag) {
  RETURN_IF_ERROR(Reason());
  RETURN_IF_ERROR(Begin(messages, tag));
  return Await([this] { return Advance(); });
}

absl::Status MessagePort::Await(absl::FunctionRef<absl::StatusOr<bool>()> done) {
  waiting_.store(true, std::memory_order_relaxed);
  absl::Status status;
  while ((status = Reason()).ok()) {
    const absl::StatusOr<bool> is_done = done();
    status = is_done.status();
    if (!status.ok() || *is_done) break;
    sched_yield();  // ranks may be more than cores
  }
  waiting_.store(false, std::memory_order_relaxed);
  return status;
}

void MessagePort::Abort(const absl::Status& reason) {
  const std::lock_guard lock(mutex_);
  if (reason_.ok()) reason_ = reason;
  aborted_.store(true);
}

absl::Status MessagePort::Reason() const {
  if (!aborted_.load(std::memory_order_relaxed)) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  return absl::CancelledError(absl::StrCat("communication was given up: ", reason_.message()));
}

absl::Status Broadcast(MessagePort& port, int root, void* data, int64_t bytes) {
  constexpr int kTag = 32767;
  std::vector<MessagePort::Message> messages;
  if (port.rank() != root) {
    messages.push_back({root, true, data, bytes});
  } else {
    for (int peer = 0; peer < port.size(); ++peer) {
      if (peer != root) messages.push_back({peer, false, data, bytes});
    }
  }
  return port.Exchange(messages, kTag);
}

absl::StatusOr<std::vector<std::string>> GatherTexts(MessagePort& port, const std::string& own) {
  std::vector<std::string> all(static_cast<size_t>(port.size()));
  for (int rank = 0; rank < port.size(); ++rank) {
    auto size = static_cast<int64_t>(own.size());
    RETURN_IF_ERROR(Broadcast(port, rank, &size, sizeof size));
    std::string& text = all[static_cast<size_t>(rank)];
    if (rank == port.rank()) text = own;
    text.resize(static_cast<size_t>(size));
    RETURN_IF_ERROR(Broadcast(port, rank, text.data(), size));
  }
  return all;
}

}  // namespace partita

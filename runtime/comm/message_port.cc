#include "runtime/comm/message_port.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks may be more than cores, and on a host the cores compute meanwhile. A network holds what
// arrives in the time slept: a small part of that waited so far.
void Rest(Clock::time_point since, bool for_network) {
  constexpr auto kLeast = std::chrono::microseconds(10), kMost = std::chrono::microseconds(250);
  const auto part = for_network ? (Clock::now() - since) / 16 : Clock::duration::zero();
  if (part < kLeast) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::min<Clock::duration>(part, kMost));
  }
}

constexpr int kTagOfTexts = 32767;

absl::Status CheckText(int rank, int64_t size, int64_t most) {
  if (size >= 0 && size <= most) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("rank ", rank, " wants to tell ", size, " bytes; wanted at most ", most));
}

// An all-gather of blocks by rank, whose sizes all ranks know: the rank's own block is there, the
// others are overwritten. In each round a rank hands on the blocks that it has, from its own on, to
// the rank so many before it.
absl::Status GatherBlocks(MessagePort& port, std::vector<std::string>& all) {
  const int ranks = port.size();
  const auto block = [&](int distance) -> std::string& {
    return all[static_cast<size_t>((port.rank() + distance) % ranks)];
  };
  for (int known = 1; known < ranks; known *= 2) {
    const int count = std::min(known, ranks - known);
    std::string sent, received;
    size_t bytes = 0;
    for (int k = 0; k < count; ++k) {
      sent += block(k);
      bytes += block(known + k).size();
    }
    received.resize(bytes);
    const MessagePort::Message messages[] = {{.peer = (port.rank() + ranks - known) % ranks,
                                              .receives = false,
                                              .data = sent.data(),
                                              .bytes = static_cast<int64_t>(sent.size())},
                                             {.peer = (port.rank() + known) % ranks,
                                              .receives = true,
                                              .data = received.data(),
                                              .bytes = static_cast<int64_t>(bytes)}};
    RETURN_IF_ERROR(port.Exchange(messages, kTagOfTexts));
    size_t begin = 0;
    for (int k = 0; k < count; ++k) {
      std::string& next = block(known + k);
      received.copy(next.data(), next.size(), begin);
      begin += next.size();
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MessagePort::Exchange(std::span<const Message> messages, int tag) {
  RETURN_IF_ERROR(Reason());
  RETURN_IF_ERROR(Begin(messages, tag));
  return Await([this] { return Advance(); });
}

absl::Status MessagePort::Await(absl::FunctionRef<absl::StatusOr<bool>()> done) {
  waiting_.store(true, std::memory_order_relaxed);
  const Clock::time_point since = Clock::now();
  absl::Status status;
  while ((status = Reason()).ok()) {
    const absl::StatusOr<bool> is_done = done();
    status = is_done.status();
    if (!status.ok() || *is_done) break;
    const double limit = limit_seconds_.load(std::memory_order_relaxed);
    if (limit > 0 && Clock::now() - since > std::chrono::duration<double>(limit)) {
      status =
          absl::UnavailableError(absl::StrCat("a rank has not answered for ", limit,
                                              " s: it is stopped, or its host cannot be reached"));
      break;
    }
    Rest(since, AwaitsNetwork());
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
  // What another thread ended for a reason has that reason's category.
  return WithCategory(CategoryOf(reason_), AbandonedError(absl::StrCat(
                                               "communication was given up: ", reason_.message())));
}

absl::Status Broadcast(MessagePort& port, int root, void* data, int64_t bytes) {
  std::vector<MessagePort::Message> messages;
  if (port.rank() != root) {
    messages.push_back({root, true, data, bytes});
  } else {
    for (int peer = 0; peer < port.size(); ++peer) {
      if (peer != root) messages.push_back({peer, false, data, bytes});
    }
  }
  return port.Exchange(messages, kTagOfTexts);
}

absl::Status BroadcastText(MessagePort& port, int root, std::string& text, int64_t most) {
  auto size = static_cast<int64_t>(text.size());
  RETURN_IF_ERROR(Broadcast(port, root, &size, sizeof size));
  RETURN_IF_ERROR(CheckText(root, size, most));
  text.resize(static_cast<size_t>(size));
  return Broadcast(port, root, text.data(), size);
}

absl::StatusOr<std::vector<std::string>> GatherBytes(MessagePort& port, const std::string& own) {
  std::vector<std::string> all(static_cast<size_t>(port.size()), own);
  RETURN_IF_ERROR(GatherBlocks(port, all));
  return all;
}

absl::StatusOr<std::vector<std::string>> GatherTexts(MessagePort& port, const std::string& own,
                                                     int64_t most) {
  const auto bytes = static_cast<int64_t>(own.size());
  std::string word(sizeof bytes, '\0');
  std::memcpy(word.data(), &bytes, sizeof bytes);
  ASSIGN_OR_RETURN(std::vector<std::string> all, GatherBytes(port, word));
  for (int rank = 0; rank < port.size(); ++rank) {
    std::string& text = all[static_cast<size_t>(rank)];
    int64_t size = 0;
    std::memcpy(&size, text.data(), sizeof size);
    RETURN_IF_ERROR(CheckText(rank, size, most));
    text.resize(static_cast<size_t>(size));
  }
  all[static_cast<size_t>(port.rank())] = own;
  RETURN_IF_ERROR(GatherBlocks(port, all));
  return all;
}

}  // namespace partita

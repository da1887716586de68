#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/comm/message_port.h"

namespace partita {

// Mailboxes between threads.
class Mail {
 public:
  void Put(int from, int to, std::string text) {
    std::lock_guard lock(mutex_);
    boxes_[{from, to}].push_back(std::move(text));
    changed_.notify_all();
  }
  std::string Take(int from, int to) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[{from, to}];
    changed_.wait(lock, [&] { return !box.empty(); });
    std::string text = box.front();
    box.pop_front();
    return text;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::string>> boxes_;
};

class ThreadPort : public MessagePort {
 public:
  ThreadPort(Mail& mail, int rank, int size) : mail_(mail), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::Status Begin(std::span<const Message> messages, int) override {
    for (const Message& m : messages) {
      if (m.receives) continue;
      mail_.Put(rank_, m.peer,
                std::string(static_cast<char*>(m.data), static_cast<size_t>(m.bytes)));
    }
    for (const Message& m : messages) {
      if (!m.receives) continue;
      const std::string text = mail_.Take(m.peer, rank_);
      std::memcpy(m.data, text.data(), text.size());
    }
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Advance() override { return true; }

 private:
  Mail& mail_;
  const int rank_, size_;
};

}  // namespace partita

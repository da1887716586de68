#pragma once

#include <atomic>
#include <cstdint>

namespace partita {

// A barrier between threads that can be broken. It spins briefly, then sleeps.
class GroupBarrier {
 public:
  explicit GroupBarrier(int members) : members_(members) {}

  // Returns when all members have arrived, or the barrier is broken: then false.
  bool Arrive() {
    const int64_t round = round_.load(std::memory_order_acquire);
    if (round == kBroken) return false;
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
      arrived_.store(0, std::memory_order_relaxed);
      int64_t expected = round;
      const bool whole =
          round_.compare_exchange_strong(expected, round + 1, std::memory_order_acq_rel);
      round_.notify_all();
      return whole;
    }
    for (int spin = 0; spin < kSpins; ++spin) {
      const int64_t now = round_.load(std::memory_order_acquire);
      if (now != round) return now != kBroken;
    }
    for (;;) {
      const int64_t now = round_.load(std::memory_order_acquire);
      if (now != round) return now != kBroken;
      round_.wait(round, std::memory_order_acquire);
    }
  }

  void Break() {
    round_.store(kBroken, std::memory_order_release);
    round_.notify_all();
  }

 private:
  static constexpr int64_t kBroken = -1;
  static constexpr int kSpins = 2000;
  const int members_;
  std::atomic<int> arrived_{0};
  std::atomic<int64_t> round_{0};
};

}  // namespace partita

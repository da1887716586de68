#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace partita {

// A mark that streams of several backends set and wait for: what events are among streams of one.
// A counter in host memory that every device concerned can read (BackendDevice::AllocateHost), at
// first 0; rounds count from 1.
class HostSignal {
 public:
  // `word` outlives it and all work that uses it.
  explicit HostSignal(int64_t* word) : word_(word) {}

  // Raises the value to at least `round`. Any thread.
  void Set(int64_t round) {
    std::atomic_ref<int64_t> word(*word_);
    int64_t seen = word.load(std::memory_order_relaxed);
    while (seen < round && !word.compare_exchange_weak(seen, round, std::memory_order_release)) {
    }
    word.notify_all();
  }
  // Returns once `round` was set; false if it was released instead.
  bool Wait(int64_t round) const {
    std::atomic_ref<int64_t> word(*word_);
    for (;;) {
      const int64_t seen = word.load(std::memory_order_acquire);
      if (seen >= round) return seen != kReleased;
      word.wait(seen, std::memory_order_acquire);
    }
  }
  // Releases all waiting threads, now and later.
  void Release() { Set(kReleased); }

  // Word for devices that poll it: they go on when it is at least the round.
  int64_t* word() const { return word_; }

 private:
  static constexpr int64_t kReleased = std::numeric_limits<int64_t>::max();
  int64_t* word_;
};

}  // namespace partita

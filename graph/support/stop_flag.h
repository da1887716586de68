#pragma once

#include <atomic>

namespace partita {

// Whether long work has been asked to end, by another thread or a signal. Null: it never is.
inline bool IsSet(const std::atomic<bool>* stop) {
  return stop != nullptr && stop->load(std::memory_order_relaxed);
}

}  // namespace partita

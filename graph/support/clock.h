#pragma once

#include <chrono>
#include <cstdint>

namespace partita {

// Nanoseconds of std::chrono::steady_clock: the one clock that times of work are taken from, so
// that they compare between threads and devices.
inline int64_t SteadyNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace partita

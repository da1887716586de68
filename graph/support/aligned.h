#pragma once

#include <cstdint>

namespace partita {

// Device memory is given out in multiples of this: a cache line, and the widest vector.
inline constexpr int64_t kMemoryAlignment = 64;

// The next multiple, in bytes.
constexpr int64_t Aligned(int64_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

}  // namespace partita

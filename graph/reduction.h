#pragma once

#include <cstdint>

namespace partita {

// The elementwise operation that makes one value of several: of the terms of a tensor's element, of
// the buffers of an all-reduce or reduce-scatter.
enum class Reduction : uint8_t { kSum, kMax };

constexpr const char* Name(Reduction reduction) {
  return reduction == Reduction::kSum ? "sum" : "max";
}

}  // namespace partita

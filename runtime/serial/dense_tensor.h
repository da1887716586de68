#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "graph/box.h"
#include "graph/support/check.h"
#include "graph/tensor.h"

namespace partita {

// A tensor in memory, row-major; zeros at first.
struct DenseTensor {
  TensorType type;
  std::vector<std::byte> bytes;

  DenseTensor() = default;
  explicit DenseTensor(TensorType t)
      : type(std::move(t)), bytes(static_cast<size_t>(type.bytes())) {}

  // T has the size of an element of the type.
  template <class T>
  std::span<T> as() {
    CHECK_EQ(static_cast<int64_t>(sizeof(T)), SizeOf(type.dtype));
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const {
    CHECK_EQ(static_cast<int64_t>(sizeof(T)), SizeOf(type.dtype));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  friend bool operator==(const DenseTensor&, const DenseTensor&) = default;
};

// The part of `whole` in `box`.
DenseTensor SliceOf(const DenseTensor& whole, const Box& box);

// Adds `piece` (of the same element type) to `whole` at `box`, in that type's arithmetic; integers
// modulo 2^32 or 2^64.
void AddInto(DenseTensor& whole, const Box& box, const DenseTensor& piece);

}  // namespace partita

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace partita {

// Bytes that lists take of the heap, besides themselves; of what their elements refer to, nothing.
// An allocation takes a header of 8 bytes, is a multiple of 16 and has at least 32, as glibc's
// malloc gives it out.

inline int64_t HeapBytesOfAllocation(size_t bytes) {
  constexpr size_t kHeader = 8, kUnit = 16, kLeast = 32;
  if (bytes == 0) return 0;
  const size_t whole = (bytes + kHeader + kUnit - 1) / kUnit * kUnit;
  return static_cast<int64_t>(whole < kLeast ? kLeast : whole);
}

template <class T>
int64_t HeapBytesOf(const std::vector<T>& list) {
  return HeapBytesOfAllocation(list.capacity() * sizeof(T));
}

template <class T, size_t kInlined>
int64_t HeapBytesOf(const absl::InlinedVector<T, kInlined>& list) {
  return list.capacity() > kInlined ? HeapBytesOfAllocation(list.capacity() * sizeof(T)) : 0;
}

inline int64_t HeapBytesOf(const std::string& text) {
  const auto* object = reinterpret_cast<const char*>(&text);
  const bool is_inside = text.data() >= object && text.data() < object + sizeof(text);
  return is_inside ? 0 : HeapBytesOfAllocation(text.capacity() + 1);
}

// Sum over several lists, or whatever else has an overload.
template <class First, class Second, class... Rest>
int64_t HeapBytesOf(const First& first, const Second& second, const Rest&... rest) {
  return HeapBytesOf(first) + HeapBytesOf(second) + (int64_t{0} + ... + HeapBytesOf(rest));
}

}  // namespace partita

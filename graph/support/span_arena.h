#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>
#include <type_traits>

namespace partita {

// Memory of many short lists that are made one after another and go together. Lists stay where they
// are when the arena moves. Not for several threads.
class SpanArena {
 public:
  // Copies a list; it lives as long as the arena.
  template <class T>
  std::span<const T> Copy(std::span<const T> list) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    if (list.empty()) return {};
    auto* to = static_cast<T*>(memory_->allocate(list.size_bytes(), alignof(T)));
    std::uninitialized_copy(list.begin(), list.end(), to);
    return {to, list.size()};
  }
  template <class T>
  std::span<const T> CopyOne(const T& value) {
    return Copy(std::span<const T>(&value, 1));
  }

 private:
  static constexpr size_t kFirstBytes = 4096;

  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>(kFirstBytes);
};

}  // namespace partita

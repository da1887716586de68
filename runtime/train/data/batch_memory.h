#pragma once

#include <cstddef>
#include <memory_resource>
#include <type_traits>
#include <vector>

namespace partita {

// Elements in memory of a resource, which outlives them; a vector that is moved takes it along.
template <class T>
class BatchAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  BatchAllocator() = default;
  explicit BatchAllocator(std::pmr::memory_resource* resource) : resource_(resource) {}
  template <class U>
  BatchAllocator(const BatchAllocator<U>& other) : resource_(other.resource()) {}

  T* allocate(size_t count) {
    return static_cast<T*>(resource_->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* data, size_t count) {
    resource_->deallocate(data, count * sizeof(T), alignof(T));
  }
  std::pmr::memory_resource* resource() const { return resource_; }
  friend bool operator==(const BatchAllocator& a, const BatchAllocator& b) {
    return a.resource_ == b.resource_;
  }

 private:
  std::pmr::memory_resource* resource_ = std::pmr::new_delete_resource();
};

template <class T>
using BatchVector = std::vector<T, BatchAllocator<T>>;

}  // namespace partita

#include "runtime/executor/host_memory_resource.h"

#include <algorithm>

namespace partita {

void* HostMemoryResource::do_allocate(size_t bytes, size_t alignment) {
  auto memory = device_.AllocateHost(static_cast<int64_t>(std::max<size_t>(1, bytes)));
  if (!memory.ok()) return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  void* const data = (*memory)->data();
  const std::lock_guard lock(mutex_);
  pieces_[data] = *std::move(memory);
  return data;
}

void HostMemoryResource::do_deallocate(void* data, size_t bytes, size_t alignment) {
  {
    const std::lock_guard lock(mutex_);
    if (pieces_.erase(data) > 0) return;
  }
  std::pmr::new_delete_resource()->deallocate(data, bytes, alignment);
}

}  // namespace partita

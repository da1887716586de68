#pragma once

#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>

#include "runtime/backend/backend.h"

namespace partita {

// Host memory that a device copies from at full speed (BackendDevice::AllocateHost); ordinary
// memory where there is no more of it. The device outlives it. Any thread.
class HostMemoryResource : public std::pmr::memory_resource {
 public:
  explicit HostMemoryResource(BackendDevice& device) : device_(device) {}

 private:
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void* data, size_t bytes, size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  BackendDevice& device_;
  std::mutex mutex_;
  std::map<void*, std::unique_ptr<DeviceMemory>> pieces_;
};

}  // namespace partita

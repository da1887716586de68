#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/train/data/data_source.h"

namespace partita {

// Whether decoded samples stay in memory.
enum class DataCache { kNone, kMemory };

// Keeps values by index until they fill `max_bytes`; what comes later is not kept. For any number
// of threads.
template <class Value>
class SampleCache {
 public:
  SampleCache(int64_t size, int64_t max_bytes)
      : values_(static_cast<size_t>(size)), room_(max_bytes) {}

  // Cached value; null if it is not kept.
  std::shared_ptr<const Value> Get(int64_t index) const {
    const std::lock_guard lock(Stripe(index));
    return values_[static_cast<size_t>(index)];
  }

  void Put(int64_t index, std::shared_ptr<const Value> value, int64_t bytes) {
    if (room_.fetch_sub(bytes) < bytes) {
      room_.fetch_add(bytes);
      return;
    }
    const std::lock_guard lock(Stripe(index));
    if (values_[static_cast<size_t>(index)] == nullptr) {
      values_[static_cast<size_t>(index)] = std::move(value);
    } else {
      room_.fetch_add(bytes);  // another thread was faster
    }
  }

 private:
  std::mutex& Stripe(int64_t index) const {
    return stripes_[static_cast<size_t>(index) % stripes_.size()];
  }

  mutable std::array<std::mutex, 64> stripes_;
  std::vector<std::shared_ptr<const Value>> values_;
  std::atomic<int64_t> room_;
};

// `source` with its samples kept. Only for sources that do not look at the epoch.
std::unique_ptr<DataSource> CacheSamples(std::unique_ptr<DataSource> source, int64_t max_bytes);

}  // namespace partita

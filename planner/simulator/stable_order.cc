#include "planner/simulator/stable_order.h"

#include <algorithm>
#include <array>

namespace partita {
namespace {

constexpr int kDigitBits = 11;
constexpr size_t kBuckets = size_t{1} << kDigitBits;
constexpr size_t kFewItems = 1024;  // where std::stable_sort is faster

struct Keyed {
  uint64_t key;
  int32_t item;
};

size_t DigitOf(uint64_t key, int shift) { return (key >> shift) & (kBuckets - 1); }

}  // namespace

void StableOrderBy(std::span<const int64_t> keys, std::vector<int32_t>& items) {
  const auto key_of = [&](int32_t item) { return keys[static_cast<size_t>(item)]; };
  if (items.size() < kFewItems) {
    std::stable_sort(items.begin(), items.end(),
                     [&](int32_t a, int32_t b) { return key_of(a) < key_of(b); });
    return;
  }
  std::vector<Keyed> from(items.size()), to(items.size());
  uint64_t largest = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    from[i] = {static_cast<uint64_t>(key_of(items[i])), items[i]};
    largest = std::max(largest, from[i].key);
  }
  for (int shift = 0; shift < 64 && (largest >> shift) != 0; shift += kDigitBits) {
    std::array<uint32_t, kBuckets> begin{};
    for (const Keyed& k : from) ++begin[DigitOf(k.key, shift)];
    uint32_t sum = 0;
    for (uint32_t& b : begin) {
      const uint32_t count = b;
      b = sum;
      sum += count;
    }
    for (const Keyed& k : from) to[begin[DigitOf(k.key, shift)]++] = k;
    from.swap(to);
  }
  for (size_t i = 0; i < items.size(); ++i) items[i] = from[i].item;
}

}  // namespace partita

#include "runtime/train/data/permutation.h"

#include "graph/support/check.h"
#include "graph/support/philox.h"

namespace partita {

EpochPermutation::EpochPermutation(uint64_t seed, int64_t epoch, int64_t size)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
      epoch_{static_cast<uint32_t>(epoch),
             static_cast<uint32_t>(static_cast<uint64_t>(epoch) >> 32)},
      size_(static_cast<uint64_t>(size)),
      half_bits_(1) {
  CHECK_GE(size, 1);
  while ((size_ - 1) >> (2 * half_bits_) != 0) ++half_bits_;
}

int64_t EpochPermutation::operator()(int64_t i) const {
  const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << half_bits_) - 1);
  uint64_t value = static_cast<uint64_t>(i);
  do {
    uint32_t left = static_cast<uint32_t>(value >> half_bits_),
             right = static_cast<uint32_t>(value) & mask;
    for (uint32_t round = 0; round < 8; ++round) {
      const uint32_t next = left ^ (Philox({right, round, epoch_[0], epoch_[1]}, key_)[0] & mask);
      left = right;
      right = next;
    }
    value = uint64_t{left} << half_bits_ | right;
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace partita

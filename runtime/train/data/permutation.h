#pragma once

#include <array>
#include <cstdint>

namespace partita {

// A pseudo-random permutation of [0, size), drawn from (seed, epoch), whose images are computed one
// by one: no table, so any number of threads can look anywhere in it. A Feistel network of 8 rounds
// of Philox on the smallest even number of bits that holds `size`, applied until the value is below
// `size` again (Black, Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
class EpochPermutation {
 public:
  // size >= 1.
  EpochPermutation(uint64_t seed, int64_t epoch, int64_t size);

  // Image of i, for i in [0, size).
  int64_t operator()(int64_t i) const;

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 2> epoch_;
  uint64_t size_;
  int half_bits_;
};

}  // namespace partita

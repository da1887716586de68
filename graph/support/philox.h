#pragma once

#include <array>
#include <cstdint>

namespace partita {

// Philox4x32-10, a counter-based random generator (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). The same key and counter give the same four words
// everywhere, so parts of a tensor can be generated on different devices, in any order.
constexpr std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Words 4 * block to 4 * block + 3 of the stream `stream` of `seed`.
constexpr std::array<uint32_t, 4> PhiloxBlock(uint64_t seed, uint64_t stream, uint64_t block) {
  return Philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                 static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// One 32-bit word for element `index` of a stream: the form that kernels use.
constexpr uint32_t PhiloxWord(uint64_t seed, uint64_t stream, uint64_t index) {
  return PhiloxBlock(seed, stream, index / 4)[index % 4];
}

// Uniform in [0, 1), a multiple of 2^-24.
constexpr float UnitFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

}  // namespace partita

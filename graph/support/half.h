#pragma once

#include <bit>
#include <cstdint>

namespace partita {

// The bits of a bfloat16: the upper half of a float32's.
struct Bfloat16 {
  uint16_t bits = 0;
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

// The bits of an IEEE 754 binary16: sign, 5 bits of exponent, 10 of fraction. Every value is a
// float32's, too.
struct Float16 {
  uint16_t bits = 0;
  explicit operator float() const {
    const uint32_t sign = uint32_t{bits} >> 15 << 31;
    const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
      const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
      return sign != 0 ? -magnitude : magnitude;
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 127 - 15;  // of infinity and NaN: 31
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
  }
};

}  // namespace partita

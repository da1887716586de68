#include "graph/support/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>

namespace partita {
namespace {

float Half(int bits) { return static_cast<float>(Float16{static_cast<uint16_t>(bits)}); }
float Brain(int bits) { return static_cast<float>(Bfloat16{static_cast<uint16_t>(bits)}); }

TEST(HalfTest, KnownValuesOfFloat16) {
  for (const auto& [bits, value] :
       {std::pair(0x0000, 0.f), std::pair(0x0001, 0x1p-24f), std::pair(0x03ff, 0x3ffp-24f),
        std::pair(0x0400, 0x1p-14f), std::pair(0x3555, 0.333251953125f), std::pair(0x3c00, 1.f),
        std::pair(0x3c01, 1.0009765625f), std::pair(0xc000, -2.f), std::pair(0x8001, -0x1p-24f),
        std::pair(0x7bff, 65504.f), std::pair(0x7c00, INFINITY), std::pair(0xfc00, -INFINITY)}) {
    EXPECT_EQ(Half(bits), value) << bits;
  }
  EXPECT_TRUE(std::signbit(Half(0x8000)));
  for (int bits : {0x7c01, 0x7e00, 0x7fff, 0xfe00}) EXPECT_TRUE(std::isnan(Half(bits))) << bits;
}

TEST(HalfTest, EveryFloat16IsSignExponentAndFraction) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) continue;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    EXPECT_EQ(Half(bits), bits < 0x8000 ? magnitude : -magnitude) << bits;
  }
}

TEST(HalfTest, KnownValuesOfBfloat16) {
  for (const auto& [bits, value] :
       {std::pair(0x0000, 0.f), std::pair(0x0001, 0x1p-133f), std::pair(0x3f80, 1.f),
        std::pair(0xc000, -2.f), std::pair(0x4049, 3.140625f), std::pair(0x7f80, INFINITY),
        std::pair(0xff80, -INFINITY)}) {
    EXPECT_EQ(Brain(bits), value) << bits;
  }
  EXPECT_TRUE(std::isnan(Brain(0x7fc0)));
}

}  // namespace
}  // namespace partita

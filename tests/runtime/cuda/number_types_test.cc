// Numbers of 16 bits, against the same numbers computed in double.
#include "runtime/backend/cuda/elements/number_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "runtime/backend/cuda/elements/conversion_elements.h"

namespace partita {
namespace {

// `fraction` bits, exponents from `least` on; ties to even, which is the machine's mode.
double Rounded(double value, int fraction, int least) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), least) - fraction;
  return std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
}

double Float16Of(double value) {
  const double rounded = Rounded(value, 10, -14);
  return std::abs(rounded) < 65536 ? rounded : std::copysign(HUGE_VAL, value);
}

TEST(NumberTypesTest, EveryFloat16IsReadAndWrittenAsItself) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const int exponent = (half >> 10) & 31, fraction = half & 1023;
    const float value = FromFloat16(half);
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(value) && std::isnan(FromFloat16(ToFloat16(value)))) << bits;
      continue;
    }
    const double magnitude = exponent == 31  ? HUGE_VAL
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(value, half & 0x8000 ? -magnitude : magnitude) << bits;
    ASSERT_EQ(ToFloat16(value), half);
  }
}

TEST(NumberTypesTest, FloatsAreRoundedToTheNearest) {
  std::mt19937_64 random(3);
  int finite = 0;
  for (int k = 0; k < 1'000'000; ++k) {
    // Exponents of all floats, then those around float16's.
    const auto exponent = k % 2 == 0 ? random() % 256 : 95 + random() % 52;
    const float value = FloatOf(static_cast<uint32_t>((random() & 0x807fffff) | (exponent << 23)));
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(FromFloat16(ToFloat16(value)), Float16Of(value)) << value;
    const double bfloat = Rounded(value, 7, -126);
    const bool fits = std::abs(bfloat) <= std::numeric_limits<float>::max();
    ASSERT_EQ(FromBfloat16(ToBfloat16(value)), fits ? bfloat : std::copysign(HUGE_VAL, value));
    ++finite;
  }
  EXPECT_GT(finite, 900'000);
  for (float tie : {1.0f + 1.0f / 2048, 1.0f + 3.0f / 2048, std::ldexp(1.5f, -24), 65519.0f}) {
    EXPECT_EQ(FromFloat16(ToFloat16(tie)), Float16Of(tie)) << tie;
  }
  EXPECT_EQ(ToFloat16(65520.0f), 0x7c00);
  EXPECT_TRUE(std::isnan(FromBfloat16(ToBfloat16(FloatOf(0x7f800001)))));
}

TEST(NumberTypesTest, AScaleIsAPowerOfTwoThatPutsTheLargestWhereItIsWanted) {
  NumberScale scale;
  const auto scaled = [&](float most, int exponent) {
    ScaleReduction{nullptr, exponent, &scale}.Store(0, most);
    EXPECT_EQ(scale.times * scale.undo, 1.0f);
    return most * scale.times;
  };
  for (float most : {1e-12f, 3e-5f, 0.9f, 1.0f, 7.0f, 65504.0f, 1e15f}) {
    for (int exponent : {-8, 0, 15}) {
      EXPECT_GE(scaled(most, exponent), std::ldexp(1.0f, exponent - 1)) << most;
      EXPECT_LT(scaled(most, exponent), std::ldexp(1.0f, exponent)) << most;
    }
  }
  const float none[] = {0.0f, HUGE_VALF};
  for (float most : none) {
    (void)scaled(most, 0);
    EXPECT_EQ(scale.times, 1.0f);
  }
  EXPECT_EQ(scaled(1e-30f, 0), std::ldexp(1e-30f, ScaleReduction::kMostShift));
}

}  // namespace
}  // namespace partita

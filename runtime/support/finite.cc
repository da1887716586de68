#include "runtime/support/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace partita {
namespace {

// Elements that are looked at together, without a branch for each.
constexpr size_t kBlock = 4096;

// The exponent's bits are all set in NaN and infinity, and in nothing else.
template <class Bits, Bits kExponent, class T>
bool AnyNotFinite(std::span<const T> values) {
  Bits any = 0;
  for (const T value : values) any |= (std::bit_cast<Bits>(value) & kExponent) == kExponent;
  return any != 0;
}

bool AnyNotFinite(std::span<const float> values) {
  return AnyNotFinite<uint32_t, 0x7f800000u, float>(values);
}
bool AnyNotFinite(std::span<const double> values) {
  return AnyNotFinite<uint64_t, uint64_t{0x7ff} << 52, double>(values);
}

template <class T>
int64_t First(std::span<const T> values) {
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    if (!AnyNotFinite(block)) continue;
    const auto found =
        std::find_if(block.begin(), block.end(), [](T value) { return !std::isfinite(value); });
    return static_cast<int64_t>(begin) + (found - block.begin());
  }
  return -1;
}

}  // namespace

int64_t FirstNotFinite(std::span<const float> values) { return First(values); }
int64_t FirstNotFinite(std::span<const double> values) { return First(values); }

}  // namespace partita

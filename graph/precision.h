#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace partita {

// Compute type of a kernel: precision of the factors of its products and convolutions, which always
// add in float32. Weights, states and all that lies between kernels are float32 at any precision.
// Kernels without products are the same in all: float32.
enum class Precision : uint8_t { kFloat32, kTf32, kFloat16, kBfloat16 };

struct PrecisionRow {
  Precision precision;
  const char* name;
  const char* description;
};

// THE table of precisions, in the order of the enumeration.
inline constexpr PrecisionRow kPrecisions[] = {
    {Precision::kFloat32, "float32", "factors as they are"},
    {Precision::kTf32, "tf32", "10 bits of fraction, float32's range"},
    {Precision::kFloat16, "float16",
     "10 bits of fraction; each operand scaled by a power of two of its own"},
    {Precision::kBfloat16, "bfloat16", "7 bits of fraction, float32's range"},
};

constexpr const PrecisionRow& RowOf(Precision precision) {
  return kPrecisions[static_cast<size_t>(precision)];
}

constexpr std::optional<Precision> PrecisionNamed(std::string_view name) {
  for (const PrecisionRow& row : kPrecisions) {
    if (name == row.name) return row.precision;
  }
  return std::nullopt;
}

}  // namespace partita

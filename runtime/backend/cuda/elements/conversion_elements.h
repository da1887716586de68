#pragma once

#include <cmath>

#include "runtime/backend/cuda/elements/number_types.h"
#include "runtime/backend/cuda/elements/strided_index.h"

// Operands and results of products in other number types, and in another order of dimensions.
//
// float16 reaches from 2^-24 to 65504 only, and gradients lie below. Training elsewhere scales the
// loss, by one factor for the whole model that is found by trial, with steps left out where it was
// too large. Here each kernel scales each of its operands, when it converts it, by the power of two
// that its own largest element asks for, and scales its result back: nothing is kept from step to
// step, parts of a plan need not agree on anything, no step is lost, and since powers of two change
// no fraction the result does not depend on them as long as nothing leaves the range. It costs one
// more reading of each operand. bfloat16 needs none of this.

namespace partita {

// Scale of an operand and its inverse: two floats in memory.
struct NumberScale {
  float times = 1, undo = 1;
};

// One row: the scale that brings the largest magnitude of x into [2^(exponent - 1), 2^exponent).
// Operands that are zero, or have an infinity, stay as they are.
struct ScaleReduction {
  using Partial = float;
  // Bound that keeps the products of two scales in float's range.
  static constexpr int kMostShift = 60;
  const float* x = nullptr;
  int exponent = 0;
  NumberScale* scale = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(x, scale);
  }
  PARTITA_HOST_DEVICE Partial Start() const { return 0; }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int, Int k) const {
    return x[k];
  }
  PARTITA_HOST_DEVICE void Add(Partial& most, float of) const { Merge(most, fabsf(of)); }
  PARTITA_HOST_DEVICE void Merge(Partial& most, const Partial& other) const {
    if (most < other) most = other;
  }
  PARTITA_HOST_DEVICE void Store(int64_t, const Partial& most) const {
    int shift = 0;
    if (most > 0 && most <= 3.402823466e+38f) {
      int of_most = 0;
      (void)frexpf(most, &of_most);
      shift = exponent - of_most;
      shift = shift > kMostShift ? kMostShift : shift < -kMostShift ? -kMostShift : shift;
    }
    scale->times = ldexpf(1.0f, shift);
    scale->undo = ldexpf(1.0f, -shift);
  }
};

// The two numbers that cuBLASLt multiplies a product and what was there before by.
struct ProductFactorsElement {
  const NumberScale *a = nullptr, *b = nullptr;
  float* factors = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(a, b, factors);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void operator()(Int) const {
    factors[0] = a->undo * b->undo;
    factors[1] = 0;
  }
};

// An element in another type: times or divided by scales, plus its channel's bias where there is
// one, then maybe a ReLU.
struct Conversion {
  const void* from = nullptr;
  void* to = nullptr;
  NumberType from_type = NumberType::kFloat32, to_type = NumberType::kFloat32;
  // Factors of the values read; null: 1
  const float *first_factor = nullptr, *second_factor = nullptr;
  const float* bias = nullptr;
  bool relu = false;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    visit(from, to, first_factor, second_factor, bias);
  }
  PARTITA_HOST_DEVICE uint32_t Bits(int64_t at) const { return LoadBits(from_type, from, at); }
  PARTITA_HOST_DEVICE float Value(uint32_t bits) const {
    float value = ValueOf(from_type, bits);
    if (first_factor != nullptr) value *= ReadOnly(first_factor);
    if (second_factor != nullptr) value *= ReadOnly(second_factor);
    return value;
  }
  PARTITA_HOST_DEVICE void Store(int64_t at, int64_t channel, float value) const {
    if (bias != nullptr) value += ReadOnly(bias + channel);
    StoreNumber(to_type, to, at, relu && value < 0 ? 0.0f : value);
  }
};

// Conversion in the same order; rows of `row` elements start `pitch` apart in the destination. An
// element's channel is that of [n, channels, inner].
struct ConversionElement {
  Conversion conversion;
  Divisor row;
  ElementChannels channels;
  int64_t pitch = 1;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    conversion.VisitPointers(visit);
  }
  // Whether elements lie in the same order on both sides, without gaps, and know no channel.
  bool keeps_order() const { return pitch == row.value && conversion.bias == nullptr; }
  // Whether they lie at addresses that suit vectors of four, too.
  bool suits_vectors() const {
    const auto suits = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
    return keeps_order() && suits(conversion.from) && suits(conversion.to);
  }
  using Operands = uint32_t;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return conversion.Bits(i);
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, uint32_t bits) const {
    const auto [r, column] = row.Divide(i);
    Int channel = 0;
    if (conversion.bias != nullptr) channel = channels.Of(i);
    conversion.Store(r * pitch + column, channel, conversion.Value(bits));
  }
};

// Each of `batch` row-major matrices transposed: to[b, c, r] = from[b, r, c]. Where there is a
// bias, c is the channel.
struct TransposeWork {
  static constexpr int kTile = 32;  // rows and columns of what a block of threads holds
  static constexpr int64_t kMostBlocks = 1 << 20;
  Conversion conversion;
  int64_t batch = 0, rows = 0, columns = 0;
  // Tiles of all matrices in one row, and the blocks that take them.
  int64_t tiles = 0;
  Divisor tile_columns, tiles_of_matrix;
  uint32_t blocks = 0;
  // None of the numbers is 0.
  static TransposeWork Of(const Conversion& conversion, int64_t batch, int64_t rows,
                          int64_t columns) {
    const auto tiles_of = [](int64_t extent) { return (extent + kTile - 1) / kTile; };
    TransposeWork work;
    work.conversion = conversion;
    work.batch = batch;
    work.rows = rows;
    work.columns = columns;
    work.tile_columns = Divisor::Of(tiles_of(columns));
    work.tiles_of_matrix = Divisor::Of(tiles_of(rows) * tiles_of(columns));
    work.tiles = batch * work.tiles_of_matrix.value;
    work.blocks = static_cast<uint32_t>(work.tiles < kMostBlocks ? work.tiles : kMostBlocks);
    return work;
  }
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    conversion.VisitPointers(visit);
  }
};

// The same for matrices of so few rows that tiles of them would be empty for the most part, as
// images of three colours: i counts the columns of all matrices.
struct NarrowTransposeElement {
  static constexpr int kMostRows = 8;
  Conversion conversion;
  int rows = 1;
  Divisor columns;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitPointers(Visit&& visit) {
    conversion.VisitPointers(visit);
  }
  struct Operands {
    int64_t column;
    uint32_t bits[kMostRows];
  };
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    Operands of;
    const auto [b, column] = columns.Divide(i);
    of.column = column;
    const int64_t first = b * (rows * columns.value) + column;
    for (int r = 0; r < kMostRows; ++r) {
      of.bits[r] = r < rows ? conversion.Bits(first + r * columns.value) : 0;
    }
    return of;
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, const Operands& of) const {
    for (int r = 0; r < kMostRows; ++r) {
      if (r < rows)
        conversion.Store(static_cast<int64_t>(i) * rows + r, of.column,
                         conversion.Value(of.bits[r]));
    }
  }
};

}  // namespace partita

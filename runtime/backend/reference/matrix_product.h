#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/backend/reference/arithmetic.h"

namespace partita {

// A matrix anywhere in memory: element (i, j) is data[i * row + j * column].
template <class T>
struct MatrixView {
  const T* data = nullptr;
  int64_t row = 0;
  int64_t column = 1;
};

template <class T>
MatrixView<T> RowMajor(const T* data, int64_t columns) {
  return {data, columns, 1};
}
template <class T>
MatrixView<T> Transposed(const MatrixView<T>& m) {
  return {m.data, m.column, m.row};
}

struct ProductExtents {
  int64_t rows = 0;     // of a and c
  int64_t columns = 0;  // of b and c
  int64_t depth = 0;    // columns of a, rows of b
};

// c += a * b, c row-major. Products and sums are taken in Wide, the depth in ascending order, so
// the result does not depend on how rows and columns are cut. b is copied tile by tile, so that the
// inner loop runs over consecutive elements whatever its strides are.
template <class Wide, class TA, class TB>
void AddProduct(const ProductExtents& extents, MatrixView<TA> a, MatrixView<TB> b, Wide* c) {
  constexpr int64_t kDepth = 64;
  constexpr int64_t kColumns = 256;
  std::vector<Wide> tile(static_cast<size_t>(kDepth * kColumns));
  for (int64_t k0 = 0; k0 < extents.depth; k0 += kDepth) {
    const int64_t k1 = std::min(extents.depth, k0 + kDepth);
    for (int64_t j0 = 0; j0 < extents.columns; j0 += kColumns) {
      const int64_t width = std::min(extents.columns, j0 + kColumns) - j0;
      for (int64_t k = k0; k < k1; ++k) {
        for (int64_t j = 0; j < width; ++j) {
          tile[static_cast<size_t>((k - k0) * kColumns + j)] =
              Wide(b.data[k * b.row + (j0 + j) * b.column]);
        }
      }
      for (int64_t i = 0; i < extents.rows; ++i) {
        Wide* out = c + i * extents.columns + j0;
        for (int64_t k = k0; k < k1; ++k) {
          const Wide factor(a.data[i * a.row + k * a.column]);
          const Wide* in = tile.data() + (k - k0) * kColumns;
          for (int64_t j = 0; j < width; ++j) out[j] += factor * in[j];
        }
      }
    }
  }
}

// c = a * b, rounded once; c row-major.
template <class A, class T = typename A::T>
void StoreProduct(const ProductExtents& extents, MatrixView<T> a, MatrixView<T> b, T* c) {
  constexpr int64_t kRows = 64;  // bounds the memory for sums
  std::vector<typename A::Wide> sums;
  for (int64_t i = 0; i < extents.rows; i += kRows) {
    const int64_t rows = std::min(kRows, extents.rows - i);
    sums.assign(static_cast<size_t>(rows * extents.columns), typename A::Wide());
    AddProduct({rows, extents.columns, extents.depth},
               MatrixView<T>{a.data + i * a.row, a.row, a.column}, b, sums.data());
    std::transform(sums.begin(), sums.end(), c + i * extents.columns, &A::Round);
  }
}

}  // namespace partita

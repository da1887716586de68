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
  int64_t rows = 0;     // rows of a and c
  int64_t columns = 0;  // columns of b and c
  int64_t depth = 0;    // columns of a, rows of b
};

constexpr int64_t kTileColumns = 256;

// Elements of a matrix along one of its dimensions.
template <class T>
struct StridedVector {
  const T* data = nullptr;
  int64_t stride = 1;
  int64_t size = 0;
};

// out[j] += sum over k of factors[k] * tile[k][j], k ascending, four at a time so that `out` is
// read and written less often.
template <class Wide, class T>
void AddRows(const StridedVector<T>& factors, const Wide* tile, int64_t width, Wide* out) {
  const auto factor = [&](int64_t k) { return Wide(factors.data[k * factors.stride]); };
  int64_t k = 0;
  for (; k + 4 <= factors.size; k += 4) {
    const Wide f0 = factor(k), f1 = factor(k + 1), f2 = factor(k + 2), f3 = factor(k + 3);
    const Wide* r = tile + k * kTileColumns;
    for (int64_t j = 0; j < width; ++j) {
      out[j] = out[j] + f0 * r[j] + f1 * r[j + kTileColumns] + f2 * r[j + 2 * kTileColumns] +
               f3 * r[j + 3 * kTileColumns];
    }
  }
  for (; k < factors.size; ++k) {
    const Wide f = factor(k);
    for (int64_t j = 0; j < width; ++j) out[j] += f * tile[k * kTileColumns + j];
  }
}

// c += a * b, c row-major. Products and sums are taken in Wide, the depth in ascending order, so
// the result does not depend on how rows and columns are cut. b is copied tile by tile, so that the
// inner loop runs over consecutive elements whatever its strides are.
template <class Wide, class TA, class TB>
void AddProduct(const ProductExtents& extents, MatrixView<TA> a, MatrixView<TB> b, Wide* c) {
  constexpr int64_t kDepth = 64;
  std::vector<Wide> tile(static_cast<size_t>(std::min(kDepth, extents.depth) * kTileColumns));
  for (int64_t k0 = 0; k0 < extents.depth; k0 += kDepth) {
    const int64_t k1 = std::min(extents.depth, k0 + kDepth);
    for (int64_t j0 = 0; j0 < extents.columns; j0 += kTileColumns) {
      const int64_t width = std::min(extents.columns, j0 + kTileColumns) - j0;
      for (int64_t k = k0; k < k1; ++k) {
        for (int64_t j = 0; j < width; ++j) {
          tile[static_cast<size_t>((k - k0) * kTileColumns + j)] =
              Wide(b.data[k * b.row + (j0 + j) * b.column]);
        }
      }
      for (int64_t i = 0; i < extents.rows; ++i) {
        AddRows(StridedVector<TA>{a.data + i * a.row + k0 * a.column, a.column, k1 - k0},
                tile.data(), width, c + i * extents.columns + j0);
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

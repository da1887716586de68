#include "runtime/backend/cuda/launch_works.h"
#include "runtime/backend/cuda/typed_conversion.h"

namespace partita {
namespace {

constexpr int kTile = TransposeWork::kTile;
constexpr int kLines = 8;  // threads take this many rows of a tile at once
constexpr int kElements = kTile / kLines;

// A tile's place, the extents of its matrix, and the thread's place in the tile.
struct Tile {
  int row, column, rows, columns, x, y;
};

// A tile goes through shared memory, so that both its reads and its writes are of neighbours; the
// odd pitch keeps its columns in different banks. kWhole: no element lies outside the matrix.
template <bool kWhole, class Typed>
__device__ void MoveTile(const Typed& conversion, const Tile& tile, int64_t base,
                         float (&held)[kTile][kTile + 1]) {
  const auto [row, column, rows, columns, x, y] = tile;
  const auto* const from = conversion.from + base + ((row + y) * columns + column + x);
  typename Typed::From read[kElements];
#pragma unroll
  for (int k = 0; k < kElements; ++k) {
    const bool inside = kWhole || (row + y + k * kLines < rows && column + x < columns);
    read[k] = inside ? ReadOnly(from + k * kLines * columns) : typename Typed::From{};
  }
  float bias[kElements] = {};
  if (conversion.has_bias()) {
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const int c = column + y + k * kLines;
      if (kWhole || c < columns) bias[k] = conversion.BiasOf(c);
    }
  }
#pragma unroll
  for (int k = 0; k < kElements; ++k) held[y + k * kLines][x] = conversion.Value(read[k]);
  __syncthreads();
  auto* const to = conversion.to + base + ((column + y) * rows + row + x);
#pragma unroll
  for (int k = 0; k < kElements; ++k) {
    if (!kWhole && (row + x >= rows || column + y + k * kLines >= columns)) continue;
    to[k * kLines * rows] = conversion.Result(held[x][y + k * kLines] + bias[k]);
  }
  __syncthreads();
}

// Tiles are counted by Int: see WithIndex.
template <NumberType kFrom, NumberType kTo, class Int>
__global__ void __launch_bounds__(kTile* kLines)
    TransposeTiles(const __grid_constant__ TransposeWork work) {
  using Typed = TypedConversion<kFrom, kTo>;
  __shared__ float held[kTile][kTile + 1];
  const Typed conversion(work.conversion);
  const int rows = static_cast<int>(work.rows), columns = static_cast<int>(work.columns);
  const int64_t of_matrix = work.rows * work.columns;
  for (Int t = static_cast<Int>(blockIdx.x); t < static_cast<Int>(work.tiles);
       t += static_cast<Int>(gridDim.x)) {
    const auto [matrix, within] = work.tiles_of_matrix.Divide(t);
    const auto [tile_row, tile_column] = work.tile_columns.Divide(static_cast<int>(within));
    const Tile tile{tile_row * kTile, tile_column * kTile,           rows,
                    columns,          static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.y)};
    if (tile.row + kTile <= rows && tile.column + kTile <= columns) {
      MoveTile<true>(conversion, tile, matrix * of_matrix, held);
    } else {
      MoveTile<false>(conversion, tile, matrix * of_matrix, held);
    }
  }
}

}  // namespace

cudaError_t LaunchTranspose(const TransposeWork& work, cudaStream_t stream) {
  return WithTypes(work.conversion, [&](auto from, auto to) {
    WithIndex(work.tiles, [&](auto zero) {
      TransposeTiles<from(), to(), decltype(zero)>
          <<<work.blocks, dim3(kTile, kLines), 0, stream>>>(work);
    });
    return cudaGetLastError();
  });
}

}  // namespace partita

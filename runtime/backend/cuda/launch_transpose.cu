#include <algorithm>

#include "runtime/backend/cuda/launch_works.h"
#include "runtime/backend/cuda/typed_conversion.h"

namespace partita {
namespace {

constexpr int kTile = 32;  // rows and columns of what a block holds
constexpr int kLines = 8;  // threads take this many rows of a tile at once
constexpr int kElements = kTile / kLines;
constexpr int64_t kMostBlocks = 1 << 20;

// The tiles of all matrices in one row.
struct Tiles {
  int64_t count = 0;
  Divisor columns, of_matrix;
};

// A tile goes through shared memory, so that both its reads and its writes are of neighbours; the
// odd pitch keeps its columns in different banks.
template <NumberType kFrom, NumberType kTo>
__global__ void __launch_bounds__(kTile* kLines)
    TransposeTiles(const __grid_constant__ TransposeWork work,
                   const __grid_constant__ Tiles tiles) {
  using Typed = TypedConversion<kFrom, kTo>;
  __shared__ float held[kTile][kTile + 1];
  const Typed conversion(work.conversion);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int rows = static_cast<int>(work.rows), columns = static_cast<int>(work.columns);
  for (int64_t t = blockIdx.x; t < tiles.count; t += gridDim.x) {
    const int64_t matrix = tiles.of_matrix.Quotient(t);
    const int within = static_cast<int>(t - matrix * tiles.of_matrix.value);
    const int tile_row = static_cast<int>(tiles.columns.Quotient(within));
    const int row = tile_row * kTile;
    const int column = (within - tile_row * static_cast<int>(tiles.columns.value)) * kTile;
    const int64_t base = matrix * rows * columns;
    const auto* const from = conversion.from + base + ((row + y) * columns + column + x);
    typename Typed::From read[kElements];
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const bool inside = row + y + k * kLines < rows && column + x < columns;
      read[k] = inside ? from[k * kLines * columns] : typename Typed::From{};
    }
#pragma unroll
    for (int k = 0; k < kElements; ++k) held[y + k * kLines][x] = conversion.Value(read[k]);
    __syncthreads();
    auto* const to = conversion.to + base + ((column + y) * rows + row + x);
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const int c = column + y + k * kLines;
      if (row + x >= rows || c >= columns) continue;
      to[k * kLines * rows] = conversion.Result(held[x][y + k * kLines] + conversion.BiasOf(c));
    }
    __syncthreads();
  }
}

}  // namespace

cudaError_t LaunchTranspose(const TransposeWork& work, cudaStream_t stream) {
  if (work.batch == 0 || work.rows == 0 || work.columns == 0) return cudaSuccess;
  const auto tiles_of = [](int64_t extent) { return (extent + kTile - 1) / kTile; };
  Tiles tiles;
  tiles.columns = Divisor::Of(tiles_of(work.columns));
  tiles.of_matrix = Divisor::Of(tiles_of(work.rows) * tiles.columns.value);
  tiles.count = work.batch * tiles.of_matrix.value;
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, tiles.count));
  return WithTypes(work.conversion, [&](auto from, auto to) {
    TransposeTiles<from(), to()><<<blocks, dim3(kTile, kLines), 0, stream>>>(work, tiles);
    return cudaGetLastError();
  });
}

}  // namespace partita

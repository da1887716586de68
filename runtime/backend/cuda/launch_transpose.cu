#include <algorithm>

#include "runtime/backend/cuda/launch_works.h"

namespace partita {
namespace {

constexpr int kTile = 32;  // rows and columns of what a block holds
constexpr int kLines = 8;  // threads take this many rows of a tile at once
constexpr int64_t kMostBlocks = 8192;

// The tiles of all matrices in one row.
struct Tiles {
  int64_t count = 0;
  Divisor columns, of_matrix;
};

// A tile goes through shared memory, so that both its reads and its writes are of neighbours; the
// odd pitch keeps its columns in different banks.
__global__ void __launch_bounds__(kTile* kLines)
    TransposeTiles(const __grid_constant__ TransposeWork work,
                   const __grid_constant__ Tiles tiles) {
  __shared__ float held[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (int64_t t = blockIdx.x; t < tiles.count; t += gridDim.x) {
    const int64_t matrix = tiles.of_matrix.Quotient(t);
    const int64_t within = t - matrix * tiles.of_matrix.value;
    const int64_t tile_row = tiles.columns.Quotient(within);
    const int64_t row = tile_row * kTile;
    const int64_t column = (within - tile_row * tiles.columns.value) * kTile;
    const int64_t base = matrix * work.rows * work.columns;
    uint32_t bits[kTile / kLines];
#pragma unroll
    for (int k = 0; k < kTile / kLines; ++k) {
      const int64_t r = row + y + k * kLines, c = column + x;
      const bool inside = r < work.rows && c < work.columns;
      bits[k] = inside ? work.conversion.Bits(base + r * work.columns + c) : 0;
    }
#pragma unroll
    for (int k = 0; k < kTile / kLines; ++k) {
      held[y + k * kLines][x] = work.conversion.Value(bits[k]);
    }
    __syncthreads();
#pragma unroll
    for (int k = y; k < kTile; k += kLines) {
      const int64_t r = row + x, c = column + k;
      if (r < work.rows && c < work.columns) {
        work.conversion.Store(base + c * work.rows + r, c, held[x][k]);
      }
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
  TransposeTiles<<<blocks, dim3(kTile, kLines), 0, stream>>>(work, tiles);
  return cudaGetLastError();
}

}  // namespace partita

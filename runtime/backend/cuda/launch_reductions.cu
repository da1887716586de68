#include "runtime/backend/cuda/launch_works.h"

namespace partita {
namespace {

constexpr int kThreads = ReductionShape::kBlockThreads;
constexpr int kTerms = 8;  // that a thread reads before it adds the first

// Each lanes-th of the terms [begin, end) of a row, in this order.
template <class Int>
struct TermsOfThread {
  Int row, begin, end;
  int lanes;
};
template <class F, class Int>
__device__ void AddTerms(const F& functor, const TermsOfThread<Int>& terms,
                         typename F::Partial& partial) {
  const auto [row, begin, end, lanes] = terms;
  Int k = begin;
  if constexpr (ReadsFirst<F>::value) {
    for (; k + (kTerms - 1) * lanes < end; k += kTerms * lanes) {
      typename F::Operands operands[kTerms];
#pragma unroll
      for (int t = 0; t < kTerms; ++t) operands[t] = functor.Load(row, k + t * lanes);
#pragma unroll
      for (int t = 0; t < kTerms; ++t) functor.Add(partial, operands[t]);
    }
  }
  for (; k < end; k += lanes) AddTerm(functor, partial, row, k);
}

// One chunk of the terms of kThreads / lanes rows for each block: lane by lane, then by a tree.
// Without chunks the results are stored, with chunks the partial results are left in `partials`.
// Int: see WithIndex.
template <class F, class Int>
__global__ void __launch_bounds__(kThreads)
    ReduceRows(const __grid_constant__ F functor, const __grid_constant__ ReductionShape shape,
               typename F::Partial* __restrict__ partials) {
  using Partial = typename F::Partial;
  __shared__ alignas(16) unsigned char memory[kThreads * sizeof(Partial)];
  auto* shared = reinterpret_cast<Partial*>(memory);
  const int thread = static_cast<int>(threadIdx.x), lanes = shape.lanes;
  const int rows_of_block = kThreads / lanes;
  const int row_of_block = shape.rows_are_neighbours ? thread % rows_of_block : thread / lanes;
  const int lane = shape.rows_are_neighbours ? thread / rows_of_block : thread % lanes;
  Partial* const slot = shared + row_of_block * lanes + lane;
  const int64_t chunk = blockIdx.y;
  const auto begin = static_cast<Int>(shape.ChunkBegin(chunk));
  const auto end = static_cast<Int>(shape.ChunkBegin(chunk + 1));
  const auto rows = static_cast<Int>(shape.rows);
  for (Int first = static_cast<Int>(blockIdx.x) * rows_of_block; first < rows;
       first += static_cast<Int>(gridDim.x) * rows_of_block) {
    const Int row = first + row_of_block;
    Partial partial = functor.Start();
    if (row < rows) {
      AddTerms(functor, TermsOfThread<Int>{row, begin + lane, end, lanes}, partial);
    }
    *slot = partial;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) functor.Merge(slot[0], slot[half]);
      __syncthreads();
    }
    if (lane == 0 && row < rows) {
      if (shape.chunks == 1) {
        functor.Store(row, *slot);
      } else {
        partials[row * shape.chunks + chunk] = *slot;
      }
    }
    __syncthreads();
  }
}

// The second pass: its terms are the chunks of a row.
template <class F>
struct MergeChunks {
  using Partial = typename F::Partial;
  F functor;
  const Partial* partials;
  int64_t chunks;
  __device__ Partial Start() const { return functor.Start(); }
  template <class Int>
  __device__ void Add(Partial& partial, Int row, Int chunk) const {
    functor.Merge(partial, partials[row * chunks + chunk]);
  }
  __device__ void Merge(Partial& partial, const Partial& other) const {
    functor.Merge(partial, other);
  }
  __device__ void Store(int64_t row, const Partial& partial) const { functor.Store(row, partial); }
};

template <class F>
cudaError_t LaunchRows(const F& functor, const ReductionShape& shape, typename F::Partial* partials,
                       cudaStream_t stream) {
  const dim3 grid(shape.groups, static_cast<unsigned>(shape.chunks));
  WithIndex(shape.places(), [&](auto zero) {
    ReduceRows<F, decltype(zero)><<<grid, kThreads, 0, stream>>>(functor, shape, partials);
  });
  return cudaGetLastError();
}

template <class F>
cudaError_t Launch(const F& functor, const ReductionWork& work, cudaStream_t stream) {
  auto* partials = static_cast<typename F::Partial*>(work.partials);
  const cudaError_t code = LaunchRows(functor, work.shape, partials, stream);
  if (code != cudaSuccess || work.shape.chunks == 1) return code;
  return LaunchRows(MergeChunks<F>{functor, partials, work.shape.chunks}, work.merge, partials,
                    stream);
}

}  // namespace

cudaError_t LaunchReduction(const ReductionWork& work, cudaStream_t stream) {
  if (work.shape.rows == 0) return cudaSuccess;
  return std::visit([&](const auto& functor) { return Launch(functor, work, stream); },
                    work.functor);
}

}  // namespace partita

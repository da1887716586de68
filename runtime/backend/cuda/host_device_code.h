#pragma once

// Marks functions that kernels call: compiled for the GPU by nvcc, and for the host everywhere,
// where tests run them. Headers that use it are included by .cu files, which are C++17: they
// include nothing of ours that is newer.
#ifdef __CUDACC__
#define PARTITA_HOST_DEVICE __host__ __device__
#else
#define PARTITA_HOST_DEVICE
#endif

namespace partita {

// A number that is not written while the kernel runs, neither through this pointer nor through one
// that lies over it: what __restrict__ says of pointers that are arguments of their own. The read
// may go before writes of the same thread, through the GPU's cache for constants.
template <class T>
PARTITA_HOST_DEVICE inline T ReadOnly(const T* number) {
#ifdef __CUDA_ARCH__
  return __ldg(number);
#else
  return *number;
#endif
}

}  // namespace partita

#pragma once

// Marks functions that kernels call: compiled for the GPU by nvcc, and for the host everywhere,
// where tests run them. Headers that use it are included by .cu files, which are C++17: they
// include nothing of ours that is newer.
#ifdef __CUDACC__
#define PARTITA_HOST_DEVICE __host__ __device__
#else
#define PARTITA_HOST_DEVICE
#endif

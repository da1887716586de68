#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include "absl/status/statusor.h"

namespace partita {

// NVIDIA's libraries as tables of functions that are looked up when the program runs: a program
// that was built with them starts where they are missing. A table's members have the functions' own
// names.

#define PARTITA_CUDNN_FUNCTIONS(X)                  \
  X(cudnnGetErrorString)                            \
  X(cudnnGetVersion)                                \
  X(cudnnCreate)                                    \
  X(cudnnDestroy)                                   \
  X(cudnnSetStream)                                 \
  X(cudnnCreateTensorDescriptor)                    \
  X(cudnnDestroyTensorDescriptor)                   \
  X(cudnnSetTensor4dDescriptor)                     \
  X(cudnnCreateFilterDescriptor)                    \
  X(cudnnDestroyFilterDescriptor)                   \
  X(cudnnSetFilter4dDescriptor)                     \
  X(cudnnCreateConvolutionDescriptor)               \
  X(cudnnDestroyConvolutionDescriptor)              \
  X(cudnnSetConvolution2dDescriptor)                \
  X(cudnnSetConvolutionGroupCount)                  \
  X(cudnnSetConvolutionMathType)                    \
  X(cudnnCreateActivationDescriptor)                \
  X(cudnnDestroyActivationDescriptor)               \
  X(cudnnSetActivationDescriptor)                   \
  X(cudnnGetConvolutionForwardAlgorithm_v7)         \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7)    \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)  \
  X(cudnnGetConvolutionForwardWorkspaceSize)        \
  X(cudnnGetConvolutionBackwardDataWorkspaceSize)   \
  X(cudnnGetConvolutionBackwardFilterWorkspaceSize) \
  X(cudnnConvolutionForward)                        \
  X(cudnnConvolutionBackwardData)                   \
  X(cudnnConvolutionBackwardFilter)                 \
  X(cudnnConvolutionBiasActivationForward)

#define PARTITA_CUBLASLT_FUNCTIONS(X)     \
  X(cublasLtGetStatusString)              \
  X(cublasLtGetVersion)                   \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmul)

#define PARTITA_TABLE_ENTRY(name) decltype(&::name) name = nullptr;
struct CudnnFunctions {
  PARTITA_CUDNN_FUNCTIONS(PARTITA_TABLE_ENTRY)
};
struct CublasLtFunctions {
  PARTITA_CUBLASLT_FUNCTIONS(PARTITA_TABLE_ENTRY)
};
#undef PARTITA_TABLE_ENTRY

// Looks for the version that the headers are of: where the system looks, then where the build found
// it. Unavailable says which library, or which of its functions, is missing. A library stays
// loaded.
absl::StatusOr<CudnnFunctions> LoadCudnn();
absl::StatusOr<CublasLtFunctions> LoadCublasLt();

}  // namespace partita

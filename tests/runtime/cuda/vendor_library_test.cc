// The functions that the cuda backend looks up in NVIDIA's libraries are there. Neither library
// needs a driver or a GPU to be loaded.
#include "runtime/backend/cuda/vendor_library.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

TEST(VendorLibraryTest, CudnnHasEveryFunctionAndIsOfTheVersionOfItsHeaders) {
  const auto cudnn = LoadCudnn();
  ASSERT_TRUE(cudnn.ok()) << cudnn.status();
  EXPECT_EQ(cudnn->cudnnGetVersion() / 10000, static_cast<size_t>(CUDNN_MAJOR));
  EXPECT_STRNE(cudnn->cudnnGetErrorString(CUDNN_STATUS_NOT_SUPPORTED), nullptr);
}

TEST(VendorLibraryTest, CublasLtHasEveryFunctionAndIsOfTheVersionOfItsHeaders) {
  const auto blas = LoadCublasLt();
  ASSERT_TRUE(blas.ok()) << blas.status();
  EXPECT_EQ(blas->cublasLtGetVersion() / 10000, static_cast<size_t>(CUBLAS_VER_MAJOR));
}

}  // namespace
}  // namespace partita

#include "runtime/backend/cuda/vendor_handles.h"

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita {

absl::StatusOr<std::unique_ptr<Cudnn>> Cudnn::Open(const AlgorithmSearch& search) {
  ASSIGN_OR_RETURN(const CudnnFunctions functions, LoadCudnn());
  cudnnHandle_t handle = nullptr;
  if (const cudnnStatus_t code = functions.cudnnCreate(&handle); code != CUDNN_STATUS_SUCCESS) {
    return absl::UnavailableError(
        absl::StrCat("opening cuDNN: ", functions.cudnnGetErrorString(code)));
  }
  auto cudnn = std::make_unique<Cudnn>();
  cudnn->f = functions;
  cudnn->handle = handle;
  cudnn->search = search;
  absl::StrAppend(&cudnn->search.device, ", cuDNN ", functions.cudnnGetVersion());
  return cudnn;
}

absl::Status Cudnn::Check(cudnnStatus_t code, const char* what) const {
  if (code == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  const std::string text = absl::StrCat("cuDNN, ", what, ": ", f.cudnnGetErrorString(code));
  if (code == CUDNN_STATUS_ALLOC_FAILED) return MemoryError(text);
  if (code / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000) return absl::UnimplementedError(text);
  return absl::InternalError(text);
}

absl::StatusOr<std::unique_ptr<CublasLt>> CublasLt::Open(const AlgorithmSearch& search) {
  ASSIGN_OR_RETURN(const CublasLtFunctions functions, LoadCublasLt());
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t code = functions.cublasLtCreate(&handle);
      code != CUBLAS_STATUS_SUCCESS) {
    return absl::UnavailableError(
        absl::StrCat("opening cuBLASLt: ", functions.cublasLtGetStatusString(code)));
  }
  auto cublaslt = std::make_unique<CublasLt>();
  cublaslt->f = functions;
  cublaslt->handle = handle;
  cublaslt->search = search;
  absl::StrAppend(&cublaslt->search.device, ", cuBLASLt ", functions.cublasLtGetVersion());
  return cublaslt;
}

absl::Status CublasLt::Check(cublasStatus_t code, const char* what) const {
  if (code == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string text = absl::StrCat("cuBLASLt, ", what, ": ", f.cublasLtGetStatusString(code));
  if (code == CUBLAS_STATUS_ALLOC_FAILED) return MemoryError(text);
  if (code == CUBLAS_STATUS_NOT_SUPPORTED) return absl::UnimplementedError(text);
  return absl::InternalError(text);
}

}  // namespace partita

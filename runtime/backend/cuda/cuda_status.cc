#include "runtime/backend/cuda/cuda_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"

namespace partita {

absl::Status CudaStatus(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();
  const std::string text =
      absl::StrCat(what, ": ", cudaGetErrorString(code), " (", cudaGetErrorName(code), ")");
  if (code == cudaErrorMemoryAllocation) return MemoryError(text);
  if (code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver) {
    return absl::UnavailableError(text);
  }
  return absl::InternalError(text);
}

}  // namespace partita

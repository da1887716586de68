#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/backend/cuda/plan/kernel_plan.h"
#include "runtime/backend/cuda/vendor_library.h"

namespace partita {

// Temporary memory that a library's algorithm may take at most, in bytes.
constexpr int64_t kMostWorkspace = int64_t{256} << 20;

// How a convolution is run: found once for each shape and device.
struct ConvolutionChoice {
  int algorithm = 0;  // of the pass: cudnnConvolution{Fwd,BwdData,BwdFilter}Algo_t
  cudnnMathType_t math = CUDNN_FMA_MATH;
  int64_t workspace_bytes = 0;
  bool fused = false;  // the library does bias and activation in the same call
};

// cuDNN on one device. `mutex` guards the handle, whose stream is set for each call, and the
// choices.
struct Cudnn {
  static absl::StatusOr<std::unique_ptr<Cudnn>> Open();
  ~Cudnn() { f.cudnnDestroy(handle); }

  // Internal (ResourceExhausted for lack of memory, Unimplemented for what it cannot do) with the
  // library's reason.
  absl::Status Check(cudnnStatus_t code, const char* what) const;

  CudnnFunctions f;
  cudnnHandle_t handle = nullptr;
  std::mutex mutex;
  absl::flat_hash_map<ConvolutionShape, ConvolutionChoice> choices;
};

struct GemmChoice {
  cublasLtMatmulAlgo_t algorithm = {};
  int64_t workspace_bytes = 0;
};

struct CublasLt {
  static absl::StatusOr<std::unique_ptr<CublasLt>> Open();
  ~CublasLt() { f.cublasLtDestroy(handle); }
  absl::Status Check(cublasStatus_t code, const char* what) const;

  CublasLtFunctions f;
  cublasLtHandle_t handle = nullptr;
  std::mutex mutex;  // of the choices
  absl::flat_hash_map<GemmShape, GemmChoice> choices;
};

// The libraries of one device, each opened when it is first asked for, by a thread whose current
// device it is.
class VendorHandles {
 public:
  absl::StatusOr<Cudnn*> cudnn() { return Opened(cudnn_); }
  absl::StatusOr<CublasLt*> cublaslt() { return Opened(cublaslt_); }

 private:
  template <class Library>
  absl::StatusOr<Library*> Opened(std::unique_ptr<Library>& library) {
    std::lock_guard lock(mutex_);
    if (library == nullptr) {
      auto opened = Library::Open();
      if (!opened.ok()) return opened.status();
      library = *std::move(opened);
    }
    return library.get();
  }

  std::mutex mutex_;
  std::unique_ptr<Cudnn> cudnn_;
  std::unique_ptr<CublasLt> cublaslt_;
};

}  // namespace partita

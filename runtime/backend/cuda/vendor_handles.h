#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/backend/cuda/algorithm_search.h"
#include "runtime/backend/cuda/plan/kernel_steps.h"
#include "runtime/backend/cuda/vendor_library.h"

namespace partita {

// cuDNN on one device. `mutex` guards the handle, whose stream is set for each call.
struct Cudnn {
  // `search` is the device's; the library's version is added to it.
  static absl::StatusOr<std::unique_ptr<Cudnn>> Open(const AlgorithmSearch& search);
  ~Cudnn() { f.cudnnDestroy(handle); }

  // Internal (ResourceExhausted for lack of memory, Unimplemented for what it cannot do) with the
  // library's reason.
  absl::Status Check(cudnnStatus_t code, const char* what) const;

  CudnnFunctions f;
  cudnnHandle_t handle = nullptr;
  AlgorithmSearch search;
  std::mutex mutex;
};

struct CublasLt {
  static absl::StatusOr<std::unique_ptr<CublasLt>> Open(const AlgorithmSearch& search);
  ~CublasLt() { f.cublasLtDestroy(handle); }
  absl::Status Check(cublasStatus_t code, const char* what) const;

  CublasLtFunctions f;
  cublasLtHandle_t handle = nullptr;
  AlgorithmSearch search;
  std::mutex mutex;  // guards measuring
};

// The libraries of one device, each opened when it is first asked for, by a thread whose current
// device it is.
class VendorHandles {
 public:
  // Algorithms are kept in `store`, which outlives the handles, or, where it is null, in a store of
  // their own. `trials` null: nothing is measured. `device`: hardware and driver, with versions.
  VendorHandles(AlgorithmStore* store, std::unique_ptr<TrialDevice> trials, std::string device)
      : trials_(std::move(trials)),
        search_{store == nullptr ? &own_store_ : store, trials_.get(), std::move(device)} {}

  absl::StatusOr<Cudnn*> cudnn() { return Opened(cudnn_); }
  absl::StatusOr<CublasLt*> cublaslt() { return Opened(cublaslt_); }
  // Search for algorithms of whole kernels.
  const AlgorithmSearch& search() const { return search_; }
  // Replaces the handles that would be opened.
  void Use(std::unique_ptr<Cudnn> cudnn, std::unique_ptr<CublasLt> cublaslt) {
    cudnn_ = std::move(cudnn);
    cublaslt_ = std::move(cublaslt);
  }

 private:
  template <class Library>
  absl::StatusOr<Library*> Opened(std::unique_ptr<Library>& library) {
    std::lock_guard lock(mutex_);
    if (library == nullptr) {
      auto opened = Library::Open(search_);
      if (!opened.ok()) return opened.status();
      library = *std::move(opened);
    }
    return library.get();
  }

  AlgorithmStore own_store_;
  const std::unique_ptr<TrialDevice> trials_;
  const AlgorithmSearch search_;
  std::mutex mutex_;
  std::unique_ptr<Cudnn> cudnn_;
  std::unique_ptr<CublasLt> cublaslt_;
};

}  // namespace partita

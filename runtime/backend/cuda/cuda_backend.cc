#include "runtime/backend/cuda/cuda_backend.h"

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/cuda/cuda_device.h"
#include "runtime/backend/cuda/cuda_recording.h"
#include "runtime/backend/cuda/gpu_query.h"
#include "runtime/backend/cuda/vendor_library.h"

namespace partita {
namespace {

class CudaBackend : public Backend {
 public:
  std::string name() const override { return "cuda"; }

  absl::Status Available() const override {
    RETURN_IF_ERROR(CountGpus().status());
    RETURN_IF_ERROR(LoadCudnn().status());
    return LoadCublasLt().status();
  }

  bool RunsOnHost() const override { return false; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    ASSIGN_OR_RETURN(const int count, CountGpus());
    if (spec.index < 0 || spec.index >= count) {
      return absl::InvalidArgumentError(
          absl::StrCat("GPU ", spec.index, " is not among the ", count, " of this machine"));
    }
    return std::make_unique<CudaDevice>(spec);
  }

  std::unique_ptr<StreamRecording> NewRecording(std::span<Stream* const> streams) const override {
    std::vector<CudaStream*> own;
    for (Stream* stream : streams) own.push_back(static_cast<CudaStream*>(stream));
    return std::make_unique<CudaRecording>(std::move(own));
  }
};

}  // namespace

std::unique_ptr<Backend> MakeCudaBackend() { return std::make_unique<CudaBackend>(); }

}  // namespace partita

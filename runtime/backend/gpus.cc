#include "runtime/backend/gpus.h"

#ifdef PARTITA_HAVE_CUDA_BACKEND
#include "runtime/backend/cuda/gpu_query.h"
#endif

namespace partita {

#ifdef PARTITA_HAVE_CUDA_BACKEND

absl::StatusOr<GpuHost> ExamineGpus() { return QueryGpus(); }
absl::StatusOr<std::string> GpuName(int index) { return QueryGpuName(index); }
absl::StatusOr<GpuActivity> ExamineGpuActivity(int index) { return QueryGpuActivity(index); }

#else

namespace {

absl::Status Missing() {
  return absl::UnavailableError(PARTITA_CUDA_BACKEND_LACKS
                                " was not found when this program was built");
}

}  // namespace

absl::StatusOr<GpuHost> ExamineGpus() { return Missing(); }
absl::StatusOr<std::string> GpuName(int) { return Missing(); }
absl::StatusOr<GpuActivity> ExamineGpuActivity(int) { return Missing(); }

#endif

}  // namespace partita

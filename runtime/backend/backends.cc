#include "runtime/backend/backends.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "graph/support/known_names.h"
#include "graph/support/option.h"
#ifdef PARTITA_HAVE_DNNL
#include "runtime/backend/cpu/cpu_backend.h"
#endif
#ifdef PARTITA_HAVE_CUDA_BACKEND
#include "runtime/backend/cuda/cuda_backend.h"
#endif
#include "runtime/backend/reference/reference_backend.h"

namespace partita {
namespace {

constexpr char kCudaDescription[] =
    "NVIDIA GPUs through cuDNN, cuBLASLt and own kernels: float32, TF32, float16, bfloat16";

constexpr BackendRow kBackends[] = {
    {"reference", MakeReferenceBackend, "plain loops on one thread: the oracle, every type", ""},
#ifdef PARTITA_HAVE_DNNL
    {"cpu", MakeCpuBackend, "this machine's cores through oneDNN, float32", ""},
#else
    {"cpu", nullptr, "this machine's cores through oneDNN, float32",
     "oneDNN was not found when this program was built (libdnnl-dev)"},
#endif
#ifdef PARTITA_HAVE_CUDA_BACKEND
    {"cuda", MakeCudaBackend, kCudaDescription, "", true},
#else
    {"cuda", nullptr, kCudaDescription,
     PARTITA_CUDA_BACKEND_LACKS " was not found when this program was built", true},
#endif
};

}  // namespace

std::span<const BackendRow> Backends() { return kBackends; }

bool HasPrecision(const std::string& backend, Precision precision) {
  if (precision == Precision::kFloat32) return true;
  return std::any_of(std::begin(kBackends), std::end(kBackends), [&](const BackendRow& row) {
    return backend == row.name && row.every_precision;
  });
}

absl::StatusOr<std::shared_ptr<const Backend>> MakeBackend(const std::string& name) {
  for (const BackendRow& row : kBackends) {
    if (name != row.name) continue;
    if (row.make == nullptr) {
      return absl::UnavailableError(absl::StrCat("backend '", name, "' is missing: ", row.missing));
    }
    std::shared_ptr<const Backend> backend = row.make();
    if (absl::Status status = backend->Available(); !status.ok()) return status;
    return backend;
  }
  return UnknownNameError("backend", name, NamesOf(kBackends));
}

}  // namespace partita

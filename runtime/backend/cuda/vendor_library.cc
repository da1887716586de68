#include "runtime/backend/cuda/vendor_library.h"

#include <dlfcn.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

absl::StatusOr<void*> Open(const char* title, const std::vector<std::string>& names) {
  std::string reasons;
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", dlerror());
  }
  return absl::UnavailableError(absl::StrCat(title, " could not be loaded: ", reasons));
}

template <class Function>
absl::Status Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function != nullptr) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("a library of NVIDIA's lacks ", name));
}

}  // namespace

#define PARTITA_FIND(name) RETURN_IF_ERROR(Find(library, #name, table.name));

absl::StatusOr<CudnnFunctions> LoadCudnn() {
  ASSIGN_OR_RETURN(void* library, Open("cuDNN", {absl::StrCat("libcudnn.so.", CUDNN_MAJOR),
                                                 PARTITA_CUDNN_LIBRARY}));
  CudnnFunctions table;
  PARTITA_CUDNN_FUNCTIONS(PARTITA_FIND)
  return table;
}

absl::StatusOr<CublasLtFunctions> LoadCublasLt() {
  ASSIGN_OR_RETURN(void* library,
                   Open("cuBLASLt", {absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR),
                                     PARTITA_CUBLASLT_LIBRARY}));
  CublasLtFunctions table;
  PARTITA_CUBLASLT_FUNCTIONS(PARTITA_FIND)
  return table;
}

#undef PARTITA_FIND

}  // namespace partita

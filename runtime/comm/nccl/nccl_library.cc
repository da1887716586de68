#include "runtime/comm/nccl/nccl_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int kLeastVersion = NCCL_VERSION(2, 14, 0);

template <class Function>
absl::Status Find(void* library, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("'", path, "' has no function ", name,
                                             "; wanted the library of NCCL 2.14 or later"));
}

absl::Status FindAll(void* library, NcclLibrary& nccl) {
  const std::string& path = nccl.path;
  RETURN_IF_ERROR(Find(library, path, "ncclGetVersion", nccl.get_version));
  RETURN_IF_ERROR(Find(library, path, "ncclGetErrorString", nccl.get_error_string));
  RETURN_IF_ERROR(Find(library, path, "ncclGetLastError", nccl.get_last_error));
  RETURN_IF_ERROR(Find(library, path, "ncclGetUniqueId", nccl.get_unique_id));
  RETURN_IF_ERROR(Find(library, path, "ncclCommInitRankConfig", nccl.comm_init_rank_config));
  RETURN_IF_ERROR(Find(library, path, "ncclCommGetAsyncError", nccl.comm_get_async_error));
  nccl.comm_split = reinterpret_cast<decltype(nccl.comm_split)>(dlsym(library, "ncclCommSplit"));
  RETURN_IF_ERROR(Find(library, path, "ncclCommFinalize", nccl.comm_finalize));
  RETURN_IF_ERROR(Find(library, path, "ncclCommDestroy", nccl.comm_destroy));
  RETURN_IF_ERROR(Find(library, path, "ncclCommAbort", nccl.comm_abort));
  RETURN_IF_ERROR(Find(library, path, "ncclGroupStart", nccl.group_start));
  RETURN_IF_ERROR(Find(library, path, "ncclGroupEnd", nccl.group_end));
  RETURN_IF_ERROR(Find(library, path, "ncclAllReduce", nccl.all_reduce));
  RETURN_IF_ERROR(Find(library, path, "ncclReduceScatter", nccl.reduce_scatter));
  RETURN_IF_ERROR(Find(library, path, "ncclAllGather", nccl.all_gather));
  RETURN_IF_ERROR(Find(library, path, "ncclBroadcast", nccl.broadcast));
  RETURN_IF_ERROR(Find(library, path, "ncclReduce", nccl.reduce));
  RETURN_IF_ERROR(Find(library, path, "ncclSend", nccl.send));
  return Find(library, path, "ncclRecv", nccl.receive);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const NcclLibrary>> OpenNcclLibrary(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return absl::UnavailableError(absl::StrCat("cannot open NCCL's library '", path,
                                               "': ", why == nullptr ? "no reason given" : why,
                                               "; install NCCL or name the library's path"));
  }
  auto nccl = std::make_shared<NcclLibrary>();
  nccl->path = path;
  RETURN_IF_ERROR(FindAll(library, *nccl));
  RETURN_IF_ERROR(
      NcclStatus(*nccl, nccl->get_version(&nccl->version), nullptr, "asking for the version"));
  if (nccl->version < kLeastVersion) {
    return absl::UnavailableError(absl::StrCat("'", path, "' is of NCCL version code ",
                                               nccl->version, "; wanted at least ", kLeastVersion,
                                               " (2.14)"));
  }
  return nccl;
}

absl::Status NcclStatus(const NcclLibrary& nccl, ncclResult_t result, ncclComm_t comm,
                        absl::string_view what) {
  if (result == ncclSuccess) return absl::OkStatus();
  std::string text = absl::StrCat("nccl: ", what, ": ", nccl.get_error_string(result));
  const char* detail = comm == nullptr ? nullptr : nccl.get_last_error(comm);
  if (detail != nullptr && detail[0] != '\0') absl::StrAppend(&text, ": ", detail);
  return absl::InternalError(text);
}

}  // namespace partita

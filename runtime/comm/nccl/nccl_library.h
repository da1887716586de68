#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace partita {

// NCCL's functions, looked up in a library that is opened at run time: this program starts where
// there is none. Types and meanings are those of <nccl.h>.
struct NcclLibrary {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclCommSplit) comm_split = nullptr;  // null: a library before 2.18
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;

  std::string path;
  int version = 0;  // version, coded as NCCL_VERSION
};

// Opens the library of that path or name. It stays open until the program ends, as NCCL requires.
// Unavailable: it cannot be opened, does not have one of the functions that are not marked, or is
// older than 2.14, which has the first communicators that never block their caller.
absl::StatusOr<std::shared_ptr<const NcclLibrary>> OpenNcclLibrary(const std::string& path);

// An error of NCCL as a status, with `what` was done, NCCL's name of the error and what it says
// about `comm` (null: nothing). OK for ncclSuccess.
absl::Status NcclStatus(const NcclLibrary& nccl, ncclResult_t result, ncclComm_t comm,
                        absl::string_view what);

}  // namespace partita

#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace partita::nccl_on_host {

// An error of the library: NCCL's result and what happened, for people. ncclSuccess: none.
struct Failure {
  ncclResult_t result = ncclSuccess;
  std::string what;
  explicit operator bool() const { return result != ncclSuccess; }
};

// One rank's call of one of NCCL's functions that move elements.
struct Operation {
  enum class Kind : uint8_t {
    kAllReduce,
    kReduceScatter,
    kAllGather,
    kBroadcast,
    kReduce,
    kSend,
    kReceive,
  };
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;  // as the function counts
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // of those that reduce
  int peer = -1;             // root, or the other rank

  bool between_two() const { return kind == Kind::kSend || kind == Kind::kReceive; }
  bool reduces() const {
    return kind == Kind::kAllReduce || kind == Kind::kReduceScatter || kind == Kind::kReduce;
  }
  bool has_root() const { return kind == Kind::kBroadcast || kind == Kind::kReduce; }
};

// "ncclAllReduce of 12 ncclFloat32 with ncclSum", "ncclSend of 3 ncclInt32 with rank 1".
std::string ToString(const Operation& operation);

// Fault in the call of one rank of so many, by itself: type, operation, root or peer,
// null pointers, buffers that overlap otherwise than in place.
Failure CheckCall(const Operation& operation, int rank, int ranks);

// How the same collective of two ranks differs: kind (ncclInvalidUsage: another order of calls),
// count, type, reduction or root (ncclInvalidArgument).
Failure CompareCalls(const Operation& a, int rank_a, const Operation& b, int rank_b);

}  // namespace partita::nccl_on_host

#include "tests/testing/nccl_on_host/nccl_on_host.h"

#include <nccl.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/nccl_on_host/memory.h"
#include "tests/testing/nccl_on_host/operation.h"
#include "tests/testing/nccl_on_host/process.h"

namespace partita::nccl_on_host {
namespace {

using Kind = Operation::Kind;

// The group that the calling thread has open.
struct Group {
  struct Side {
    Communicator communicator;
    std::vector<Operation> operations;
  };
  int depth = 0;
  std::vector<std::pair<ncclComm_t, Side>> sides;  // in order of their first calls
  std::vector<Communicator> joining;
  Failure failure;  // the first of the group's calls
};

thread_local Group group;
thread_local std::string last_error;

ncclResult_t Tell(const Failure& failure) {
  if (failure) last_error = failure.what;
  return failure.result;
}

// Puts down what all sides call, so that a thread may call for many ranks; then waits.
Failure RunOperations(std::vector<std::pair<ncclComm_t, Group::Side>> sides) {
  Failure failure;
  for (auto& [handle, side] : sides) {
    const Failure posted = side.communicator.clique->Post(side.communicator.rank, side.operations);
    if (posted && !failure) failure = posted;
  }
  for (auto& [handle, side] : sides) {
    const Failure ended =
        side.communicator.clique->Await(side.communicator.rank, Process::Get().limit_seconds);
    if (ended && !failure) failure = ended;
  }
  return failure;
}

Failure AwaitJoining(const std::vector<Communicator>& joining) {
  Failure failure;
  for (const Communicator& one : joining) {
    Failure own = one.clique->failure();
    if (!own && !one.clique->connected()) {
      own = one.blocking ? one.clique->AwaitConnection(Process::Get().limit_seconds)
                         : Failure{ncclInProgress, "connecting"};
    }
    if (own && (!failure || failure.result == ncclInProgress)) failure = own;
  }
  return failure;
}

Failure EndGroup() {
  if (group.depth == 0) return {ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart"};
  if (--group.depth > 0) return {};
  const Group ended = std::exchange(group, {});
  Failure failure = ended.failure;
  if (!failure && !ended.joining.empty() && !ended.sides.empty()) {
    failure = {ncclInvalidUsage, "a group has both new communicators and calls of others"};
  }
  if (failure) {  // nothing of the group starts: whoever counts on it learns so
    for (const auto& [handle, side] : ended.sides) side.communicator.clique->Fail(failure);
    return failure;
  }
  if (!ended.joining.empty()) return AwaitJoining(ended.joining);
  return RunOperations(ended.sides);
}

Failure PutDown(ncclComm_t handle, const Operation& operation) {
  Communicator communicator;
  if (Failure failure = Process::Get().Find(handle, communicator)) return failure;
  Clique& clique = *communicator.clique;
  const std::string who = "rank " + std::to_string(communicator.rank);
  Failure failure = clique.failure();
  if (!failure && !clique.connected()) {
    failure = {ncclInvalidUsage, who + " calls " + ToString(operation) + " before it is connected"};
  }
  if (!failure && communicator.state == Communicator::State::kFinalized) {
    failure = {ncclInvalidUsage, who + " calls " + ToString(operation) + " after ncclCommFinalize"};
  }
  if (!failure) failure = CheckCall(operation, communicator.rank, clique.ranks());
  if (failure) clique.Fail(failure);
  if (failure) return failure;
  for (auto& [known, side] : group.sides) {
    if (known != handle) continue;
    side.operations.push_back(operation);
    return {};
  }
  group.sides.push_back({handle, {communicator, {operation}}});
  return {};
}

// One call, in the thread's group or as a group of its own.
ncclResult_t Call(ncclComm_t handle, const Operation& operation, cudaStream_t stream) {
  AwaitStream(stream);
  ++group.depth;
  const Failure failure = PutDown(handle, operation);
  if (failure && !group.failure) group.failure = failure;
  if (group.depth > 1) {
    --group.depth;
    return Tell(failure);
  }
  return Tell(EndGroup());
}

Failure Join(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, bool blocking) {
  if (handle == nullptr) return {ncclInvalidArgument, "no place for the communicator"};
  *handle = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return {ncclInvalidArgument,
            "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " ranks"};
  }
  Communicator communicator{.rank = rank, .blocking = blocking};
  if (Failure failure = Process::Get().CliqueOf(id, ranks, communicator.clique)) return failure;
  if (Failure failure = communicator.clique->Join(rank, ranks)) return failure;
  *handle = Process::Get().Add(communicator);
  group.joining.push_back(std::move(communicator));
  return {};
}

ncclResult_t JoinOne(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank,
                     bool blocking) {
  ++group.depth;
  const Failure failure = Join(handle, ranks, id, rank, blocking);
  if (failure && !group.failure) group.failure = failure;
  if (group.depth > 1) {
    --group.depth;
    return Tell(failure);
  }
  return Tell(EndGroup());
}

}  // namespace
}  // namespace partita::nccl_on_host

using namespace partita::nccl_on_host;

extern "C" {

void ncclOnHostSetTimeLimit(double seconds) { Process::Get().limit_seconds = seconds; }

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return Tell({ncclInvalidArgument, "no place for the version"});
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr const char* kNames[] = {"no error",
                                           "unhandled cuda error",
                                           "unhandled system error",
                                           "internal error",
                                           "invalid argument",
                                           "invalid usage",
                                           "remote process error",
                                           "operation in progress"};
  return 0 <= result && result < ncclNumResults ? kNames[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return Tell({ncclInvalidArgument, "no place for the id"});
  *id = Process::Get().NewId();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return JoinOne(comm, ranks, id, rank, true);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const ncclConfig_t wanted = NCCL_CONFIG_INITIALIZER;
  if (config != nullptr && (config->magic != wanted.magic || config->size != wanted.size)) {
    return Tell({ncclInvalidArgument, "the config was not made by NCCL_CONFIG_INITIALIZER"});
  }
  return JoinOne(comm, ranks, id, rank, config == nullptr || config->blocking != 0);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list) {
  if (comms == nullptr || devices < 1) return Tell({ncclInvalidArgument, "no communicators"});
  std::set<int> known;
  for (int k = 0; list != nullptr && k < devices; ++k) {
    if (!known.insert(list[k]).second) {
      return Tell({ncclInvalidUsage, "device " + std::to_string(list[k]) + " is named twice"});
    }
  }
  const ncclUniqueId id = Process::Get().NewId();
  ncclGroupStart();
  for (int rank = 0; rank < devices; ++rank) ncclCommInitRank(comms + rank, devices, id, rank);
  return ncclGroupEnd();
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  Communicator communicator;
  if (Failure failure = Process::Get().Find(comm, communicator)) return Tell(failure);
  Process::Get().SetState(comm, Communicator::State::kFinalized);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Communicator communicator;
  if (Failure failure = Process::Get().Find(comm, communicator)) return Tell(failure);
  communicator.clique->Destroy(communicator.rank);
  Process::Get().SetState(comm, Communicator::State::kDestroyed);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Communicator communicator;
  if (Failure failure = Process::Get().Find(comm, communicator)) return Tell(failure);
  communicator.clique->Abort(communicator.rank);
  Process::Get().SetState(comm, Communicator::State::kAborted);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Communicator communicator;
  if (Failure failure = Process::Get().Find(comm, communicator)) return Tell(failure);
  if (error == nullptr) return Tell({ncclInvalidArgument, "no place for the error"});
  *error = Tell(communicator.clique->failure());
  if (*error == ncclSuccess && !communicator.clique->connected()) *error = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  Communicator communicator;
  if (Failure failure = Process::Get().Find(comm, communicator)) return Tell(failure);
  *count = communicator.clique->ranks();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  Communicator communicator;
  if (Failure failure = Process::Get().Find(comm, communicator)) return Tell(failure);
  *rank = communicator.rank;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() { return Tell(EndGroup()); }

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Call(comm, {Kind::kAllReduce, send, receive, count, type, op}, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Call(comm, {Kind::kReduceScatter, send, receive, count, type, op}, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Call(comm, {Kind::kAllGather, send, receive, count, type}, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return Call(comm, {Kind::kBroadcast, send, receive, count, type, ncclSum, root}, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Call(comm, {Kind::kReduce, send, receive, count, type, op, root}, stream);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Call(comm, {Kind::kSend, send, nullptr, count, type, ncclSum, peer}, stream);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Call(comm, {Kind::kReceive, nullptr, receive, count, type, ncclSum, peer}, stream);
}

}  // extern "C"

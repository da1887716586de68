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

// Puts down what all sides call, so that a thread may call for many ranks; then waits, but for
// those that do not block.
Failure RunOperations(std::vector<std::pair<ncclComm_t, Group::Side>> sides) {
  Failure failure;
  std::vector<ncclComm_t> handles;
  for (const auto& [handle, side] : sides) handles.push_back(handle);
  Process::Get().Enter(handles);
  for (auto& [handle, side] : sides) {
    const Failure posted = side.communicator.clique->Post(side.communicator.rank, side.operations);
    if (posted && !failure) failure = posted;
  }
  for (auto& [handle, side] : sides) {
    const Communicator& own = side.communicator;
    const double limit = Process::Get().limit_seconds;
    const Failure ended =
        own.blocking ? own.clique->Await(own.rank, limit) : own.clique->State(own.rank, limit);
    if (ended && (!failure || failure.result == ncclInProgress)) failure = ended;
  }
  Process::Get().Leave(handles);
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
  ++group.depth;
  Failure failure = AwaitStream(stream);
  if (!failure) failure = PutDown(handle, operation);
  if (failure && !group.failure) group.failure = failure;
  if (group.depth > 1) {
    --group.depth;
    return Tell(failure);
  }
  return Tell(EndGroup());
}

// How a new communicator is to be.
struct Settings {
  bool blocking = true, shares = false;
};

Failure SettingsOf(const ncclConfig_t* config, Settings& settings) {
  if (config == nullptr) return {};
  const ncclConfig_t wanted = NCCL_CONFIG_INITIALIZER;
  if (config->magic != wanted.magic || config->size != wanted.size) {
    return {ncclInvalidArgument, "the config was not made by NCCL_CONFIG_INITIALIZER"};
  }
  settings = {config->blocking != 0, config->splitShare == 1};
  return {};
}

Failure Join(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank,
             const Settings& settings) {
  if (handle == nullptr) return {ncclInvalidArgument, "no place for the communicator"};
  *handle = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return {ncclInvalidArgument,
            "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " ranks"};
  }
  Communicator communicator{.rank = rank, .blocking = settings.blocking, .shares = settings.shares};
  if (Failure failure = Process::Get().CliqueOf(id, ranks, communicator.clique)) return failure;
  if (Failure failure = communicator.clique->Join(rank, ranks)) return failure;
  *handle = Process::Get().Add(communicator);
  ++Process::Get().connected;
  group.joining.push_back(std::move(communicator));
  return {};
}

#ifndef NCCL_ON_HOST_BEFORE_SPLITS
// One rank's call of a split. Waits, in a communicator that blocks.
Failure SplitOne(ncclComm_t parent, int color, int key, ncclComm_t* handle,
                 const ncclConfig_t* config) {
  Communicator communicator;
  if (Failure failure = Process::Get().Find(parent, communicator)) return failure;
  if (handle == nullptr) return {ncclInvalidArgument, "no place for the communicator"};
  if (!communicator.clique->connected() || communicator.state != Communicator::State::kOpen) {
    return {ncclInvalidUsage, "a communicator is split that is not connected, or finalized"};
  }
  Settings settings{communicator.blocking, communicator.shares};
  if (Failure failure = SettingsOf(config, settings)) return failure;
  *handle = nullptr;
  ++Process::Get().splits;
  Communicator part{.blocking = settings.blocking, .shares = settings.shares};
  if (communicator.shares) part.family = communicator.family;
  const auto take = [handle, part](std::shared_ptr<Clique> clique, int rank) mutable {
    part.clique = std::move(clique);
    part.rank = rank;
    if (part.clique != nullptr) *handle = Process::Get().Add(part);
  };
  Failure failure = communicator.clique->PostSplit(communicator.rank, {color, key, take});
  const double limit = Process::Get().limit_seconds;
  if (failure) return failure;
  return communicator.blocking ? communicator.clique->Await(communicator.rank, limit)
                               : communicator.clique->State(communicator.rank, limit);
}
#endif

ncclResult_t JoinOne(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank,
                     const Settings& settings) {
  ++group.depth;
  const Failure failure = Join(handle, ranks, id, rank, settings);
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

NcclOnHostCounts ncclOnHostTakeCounts() {
  Process& process = Process::Get();
  return {process.connected.exchange(0), process.splits.exchange(0), process.looks.exchange(0),
          process.aborted.exchange(0), process.aborted_inside.exchange(0)};
}

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return Tell({ncclInvalidArgument, "no place for the version"});
#ifdef NCCL_ON_HOST_BEFORE_SPLITS
  *version = NCCL_VERSION(2, 17, 1);
#else
  *version = NCCL_VERSION_CODE;
#endif
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
  return JoinOne(comm, ranks, id, rank, {});
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  Settings settings;
  if (Failure failure = SettingsOf(config, settings)) return Tell(failure);
  return JoinOne(comm, ranks, id, rank, settings);
}

#ifndef NCCL_ON_HOST_BEFORE_SPLITS
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  return Tell(SplitOne(comm, color, key, newcomm, config));
}
#endif

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
  ++Process::Get().aborted;
  if (Process::Get().IsEntered(comm)) ++Process::Get().aborted_inside;
  Process::Get().SetState(comm, Communicator::State::kAborted);
  communicator.clique->Abort(communicator.rank);
  for (const Communicator& other : Process::Get().Family(communicator.family)) {
    other.clique->Abort(other.rank);
  }
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Communicator communicator;
  if (Failure failure = Process::Get().Find(comm, communicator)) return Tell(failure);
  if (error == nullptr) return Tell({ncclInvalidArgument, "no place for the error"});
  ++Process::Get().looks;
  *error = Tell(communicator.clique->State(communicator.rank, Process::Get().limit_seconds));
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

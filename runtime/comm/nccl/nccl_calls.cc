#include "runtime/comm/nccl/nccl_calls.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/check.h"

namespace partita {
namespace {

using Kind = NcclCall::Kind;

ncclDataType_t TypeOf(DType dtype, Reduction reduction) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kInt32:
      return ncclInt32;
    case DType::kRing64:
      return reduction == Reduction::kMax ? ncclInt64 : ncclUint64;
  }
  return ncclFloat32;
}

int RankIn(const std::vector<DeviceId>& group, DeviceId device) {
  const auto it = std::find(group.begin(), group.end(), device);
  CHECK(it != group.end()) << "device " << device.value() << " is not in the task's group";
  return static_cast<int>(it - group.begin());
}

bool AllEqual(const std::vector<ElementRange>& blocks) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const ElementRange& block) { return block.count == blocks[0].count; });
}

// Reduce-scatter or all-gather, in place.
std::vector<NcclCall> CallsOverBlocks(const Collective& c, NcclCall call, int64_t size, int rank) {
  const bool reduces = c.kind == CollectiveKind::kReduceScatter;
  if (AllEqual(c.blocks)) {
    const int64_t own = c.blocks[static_cast<size_t>(rank)].offset * size;
    call.kind = reduces ? Kind::kReduceScatter : Kind::kAllGather;
    (reduces ? call.receive_offset : call.send_offset) = own;
    call.count = static_cast<size_t>(c.blocks[0].count);
    return {call};
  }
  std::vector<NcclCall> calls;
  call.kind = reduces ? Kind::kReduce : Kind::kBroadcast;
  for (int root = 0; root < c.ranks; ++root) {
    const ElementRange& block = c.blocks[static_cast<size_t>(root)];
    if (block.count == 0) continue;
    call.peer = root;
    call.send_offset = call.receive_offset = block.offset * size;
    call.count = static_cast<size_t>(block.count);
    calls.push_back(call);
  }
  return calls;
}

std::vector<NcclCall> CallsOfAllToAll(const Collective& c, NcclCall call, int64_t size, int rank) {
  std::vector<NcclCall> calls;
  for (int peer = 0; peer < c.ranks; ++peer) {
    call.peer = peer;
    call.count =
        static_cast<size_t>(c.counts[static_cast<size_t>(rank)][static_cast<size_t>(peer)]);
    call.kind = Kind::kSend;
    call.send_offset = SendOffset(c, rank, peer) * size;
    if (call.count > 0) calls.push_back(call);
    call.count =
        static_cast<size_t>(c.counts[static_cast<size_t>(peer)][static_cast<size_t>(rank)]);
    call.kind = Kind::kReceive;
    call.receive_offset = ReceiveOffset(c, peer, rank) * size;
    if (call.count > 0) calls.push_back(call);
  }
  return calls;
}

std::vector<NcclCall> CallsOfCollective(const CollectiveTask& task, DeviceId device) {
  const Collective& c = task.collective;
  const int rank = RankIn(task.group, device);
  const bool reduces =
      c.kind == CollectiveKind::kAllReduce || c.kind == CollectiveKind::kReduceScatter;
  const Reduction reduction = reduces ? c.reduction : Reduction::kSum;
  NcclCall call{.type = TypeOf(task.dtype, reduction),
                .op = reduction == Reduction::kMax ? ncclMax : ncclSum};
  const int64_t size = SizeOf(task.dtype);
  if (c.kind == CollectiveKind::kAllToAll) return CallsOfAllToAll(c, call, size, rank);
  if (c.total == 0) return {};
  if (c.kind != CollectiveKind::kAllReduce) return CallsOverBlocks(c, call, size, rank);
  std::vector<NcclCall> calls;
  for (size_t k = 0; k < task.slices(); ++k) {
    call.buffer = k;
    call.count = static_cast<size_t>(ElementsSent(task, static_cast<size_t>(rank), k));
    if (call.count > 0) calls.push_back(call);
  }
  return calls;
}

std::vector<NcclCall> CallsOfTransfers(const TransferTask& task, DeviceId device) {
  std::vector<NcclCall> calls;
  NcclCall call{.type = TypeOf(task.dtype, Reduction::kSum)};
  for (const Transfer& transfer : task.transfers) {
    if (transfer.from != device && transfer.to != device) continue;
    call.count = static_cast<size_t>(transfer.receive.count);
    if (transfer.from == device && call.count > 0) {
      call.kind = Kind::kSend;
      call.peer = RankIn(task.group, transfer.to);
      calls.push_back(call);
    }
    if (transfer.to == device && call.count > 0) {
      call.kind = Kind::kReceive;
      call.peer = RankIn(task.group, transfer.from);
      calls.push_back(call);
    }
    ++call.buffer;
  }
  return calls;
}

}  // namespace

const std::vector<DeviceId>& NcclGroupOf(const Task& task) {
  const auto* collective = std::get_if<CollectiveTask>(&task.body);
  return collective != nullptr ? collective->group : std::get<TransferTask>(task.body).group;
}

std::vector<NcclCall> NcclCallsOf(const Task& task, DeviceId device) {
  const auto* collective = std::get_if<CollectiveTask>(&task.body);
  return collective != nullptr ? CallsOfCollective(*collective, device)
                               : CallsOfTransfers(std::get<TransferTask>(task.body), device);
}

ncclResult_t MakeCall(const NcclLibrary& nccl, const NcclCall& call,
                      const CommunicationArguments& arguments, ncclComm_t comm,
                      cudaStream_t stream) {
  const char* from = static_cast<const char*>(arguments.send[call.buffer]) + call.send_offset;
  char* to = static_cast<char*>(arguments.receive[call.buffer]) + call.receive_offset;
  switch (call.kind) {
    case Kind::kAllReduce:
      return nccl.all_reduce(from, to, call.count, call.type, call.op, comm, stream);
    case Kind::kReduceScatter:
      return nccl.reduce_scatter(from, to, call.count, call.type, call.op, comm, stream);
    case Kind::kAllGather:
      return nccl.all_gather(from, to, call.count, call.type, comm, stream);
    case Kind::kBroadcast:
      return nccl.broadcast(from, to, call.count, call.type, call.peer, comm, stream);
    case Kind::kReduce:
      return nccl.reduce(from, to, call.count, call.type, call.op, call.peer, comm, stream);
    case Kind::kSend:
      return nccl.send(from, call.count, call.type, call.peer, comm, stream);
    case Kind::kReceive:
      return nccl.receive(to, call.count, call.type, call.peer, comm, stream);
  }
  return ncclInternalError;
}

std::string DescribeForNccl(const Task& task) {
  std::string what;
  if (const auto* collective = std::get_if<CollectiveTask>(&task.body)) {
    what = ToString(collective->collective);
  } else {
    what = absl::StrCat(std::get<TransferTask>(task.body).transfers.size(), " transfers");
  }
  return absl::StrCat("task ", task.id.value(), ": ", what, ", devices ",
                      absl::StrJoin(NcclGroupOf(task), ",", [](std::string* out, DeviceId id) {
                        absl::StrAppend(out, id.value());
                      }));
}

}  // namespace partita

#include "tests/testing/nccl_on_host/operation.h"

#include "tests/testing/nccl_on_host/elements.h"

namespace partita::nccl_on_host {
namespace {

using Kind = Operation::Kind;

const char* Name(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "ncclAllReduce";
    case Kind::kReduceScatter:
      return "ncclReduceScatter";
    case Kind::kAllGather:
      return "ncclAllGather";
    case Kind::kBroadcast:
      return "ncclBroadcast";
    case Kind::kReduce:
      return "ncclReduce";
    case Kind::kSend:
      return "ncclSend";
    case Kind::kReceive:
      return "ncclRecv";
  }
  return "?";
}

std::string Name(ncclDataType_t type) {
  static constexpr const char* kNames[] = {"ncclInt8",     "ncclUint8",      "ncclInt32",
                                           "ncclUint32",   "ncclInt64",      "ncclUint64",
                                           "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                           "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  const int index = static_cast<int>(type);
  return 0 <= index && index < ncclNumTypes ? kNames[index] : "type " + std::to_string(index);
}

std::string Name(ncclRedOp_t op) {
  static constexpr const char* kNames[] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg"};
  const int index = static_cast<int>(op);
  return 0 <= index && index < ncclNumOps ? kNames[index] : "operation " + std::to_string(index);
}

Failure Wrong(const Operation& operation, int rank, const std::string& what) {
  return {ncclInvalidArgument,
          "rank " + std::to_string(rank) + " calls " + ToString(operation) + ": " + what};
}

struct Range {
  const char* begin = nullptr;
  size_t bytes = 0;
};

// What the call reads and writes on this rank.
void Ranges(const Operation& o, int rank, int ranks, Range& send, Range& receive) {
  const size_t bytes = o.count * BytesOf(o.type);
  const auto n = static_cast<size_t>(ranks);
  const bool root = !o.has_root() || o.peer == rank;
  send = {static_cast<const char*>(o.send), bytes};
  receive = {static_cast<const char*>(o.receive), bytes};
  if (o.kind == Kind::kReduceScatter) send.bytes *= n;
  if (o.kind == Kind::kAllGather) receive.bytes *= n;
  if (o.kind == Kind::kReceive || (o.kind == Kind::kBroadcast && !root)) send = {};
  if (o.kind == Kind::kSend || (o.kind == Kind::kReduce && !root)) receive = {};
}

bool IsInPlace(const Operation& o, int rank) {
  const auto* send = static_cast<const char*>(o.send);
  const auto* receive = static_cast<const char*>(o.receive);
  const size_t own = static_cast<size_t>(rank) * o.count * BytesOf(o.type);
  if (o.kind == Kind::kReduceScatter) return receive == send + own;
  if (o.kind == Kind::kAllGather) return send == receive + own;
  return send == receive;
}

}  // namespace

std::string ToString(const Operation& o) {
  std::string text =
      std::string(Name(o.kind)) + " of " + std::to_string(o.count) + " " + Name(o.type);
  if (o.reduces()) text += " with " + Name(o.op);
  if (o.has_root()) text += " of root " + std::to_string(o.peer);
  if (o.kind == Kind::kSend) text += " to rank " + std::to_string(o.peer);
  if (o.kind == Kind::kReceive) text += " from rank " + std::to_string(o.peer);
  return text;
}

Failure CheckCall(const Operation& o, int rank, int ranks) {
  if (BytesOf(o.type) == 0) return Wrong(o, rank, "no such type");
  if (o.reduces() && !CanFold(o.type, o.op)) {
    return Wrong(o, rank,
                 "this library folds 32-bit and 64-bit types by sum, product, max and min");
  }
  if ((o.has_root() || o.between_two()) && (o.peer < 0 || o.peer >= ranks)) {
    return Wrong(o, rank, "there are " + std::to_string(ranks) + " ranks");
  }
  Range send, receive;
  Ranges(o, rank, ranks, send, receive);
  if ((send.bytes > 0 && send.begin == nullptr) ||
      (receive.bytes > 0 && receive.begin == nullptr)) {
    return Wrong(o, rank, "a buffer is null");
  }
  const bool overlap = send.bytes > 0 && receive.bytes > 0 &&
                       send.begin < receive.begin + receive.bytes &&
                       receive.begin < send.begin + send.bytes;
  if (overlap && !IsInPlace(o, rank))
    return Wrong(o, rank, "its buffers overlap, but not in place");
  return {};
}

Failure CompareCalls(const Operation& a, int rank_a, const Operation& b, int rank_b) {
  const char* what = nullptr;
  ncclResult_t result = ncclInvalidArgument;
  if (a.kind != b.kind) {
    what = "the order of calls";
    result = ncclInvalidUsage;
  } else if (a.count != b.count) {
    what = "the count";
  } else if (a.type != b.type) {
    what = "the type";
  } else if (a.reduces() && a.op != b.op) {
    what = "the reduction";
  } else if (a.has_root() && a.peer != b.peer) {
    what = "the root";
  }
  if (what == nullptr) return {};
  return {result, std::string(what) + " differs: rank " + std::to_string(rank_a) + " calls " +
                      ToString(a) + ", rank " + std::to_string(rank_b) + " " + ToString(b)};
}

}  // namespace partita::nccl_on_host

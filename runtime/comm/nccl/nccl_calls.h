#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "graph/task/task_graph.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/nccl/nccl_library.h"

namespace partita {

// One call of NCCL, without addresses: what a rank contributes to a communication task.
struct NcclCall {
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
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // operation of the calls that reduce
  int peer = 0;              // root of broadcast and reduce; other rank of send and receive
  size_t buffer = 0;         // entry of CommunicationArguments::send and receive
  int64_t send_offset = 0, receive_offset = 0;  // offsets in bytes from those addresses
  size_t count = 0;                             // elements, as NCCL's function counts them; > 0
};

// The devices of a communication task in rank order: one NCCL communicator for each such list.
const std::vector<DeviceId>& NcclGroupOf(const Task& task);

// Calls of `device`, one of the task's, for the task, in one group; none if it neither sends nor
// receives. All ranks of the group get calls that match.
//   all-reduce                one all-reduce for each slice: which algorithm and how many rounds is
//                             NCCL's choice
//   reduce-scatter            one reduce-scatter where all blocks are equal, else a reduce to the
//                             owner of each block
//   all-gather                one all-gather where all blocks are equal, else a broadcast of each
//   all-to-all, transfers     a send and a receive for each pair (to itself too)
// Empty blocks and empty transfers are left out. Ring elements travel as 64-bit integers: unsigned
// in sums, which wrap, signed in maxima.
std::vector<NcclCall> NcclCallsOf(const Task& task, DeviceId device);

// Makes one call: enqueues it, or within a group puts it down for the group's end.
ncclResult_t MakeCall(const NcclLibrary& nccl, const NcclCall& call,
                      const CommunicationArguments& arguments, ncclComm_t comm,
                      cudaStream_t stream);

// "task 7: all_reduce of 12 elements between 4 ranks, sum, devices 0,1,2,3", for messages.
std::string DescribeForNccl(const Task& task);

}  // namespace partita

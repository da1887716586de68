#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/collective/schedule.h"
#include "graph/task/task_graph.h"
#include "runtime/backend/backend.h"
#include "runtime/comm/communicator.h"

namespace partita {

// Schedule of the work that the members of a communication task enqueue on their streams when one
// thread enqueues for all: moves and waits only.
//
// A device that reaches the sender's memory reads it there. Else the sender first publishes what is
// read in host memory, and the reader either works on that, if its own memory is the host's, or
// fetches it.

// The devices of a program, by id.
using ProgramDevices = std::span<BackendDevice* const>;

// Moves of one member in one round. Moves that do not fit between the buffers themselves go through
// its scratch.
struct StreamRound {
  using Moves = std::vector<Stream::MoveArguments>;
  Moves publish;  // moves to host memory, before the round's barrier
  Moves fetch;    // moves from host memory, after it
  Moves now;      // moves into its buffer; into scratch if the round sends a snapshot
  Moves commit;   // moves from that scratch, once no member reads the old values any more
};

// Scratch bytes of a device, in addition to its buffers.
struct StreamMemory {
  int64_t assembled = 0;  // device scratch for values that are assembled separately
  int64_t fetched = 0;    // device scratch for the values fetched in a round
  int64_t published = 0;  // host scratch for the values published in a round; there are two
  void Enlarge(const StreamMemory& other);
};

// Addresses of that memory.
struct StreamPlaces {
  char* assembled = nullptr;
  char* fetched = nullptr;
  char* published[2] = {nullptr, nullptr};  // buffers used in turns: a round's is read until the
                                            // next one ends
};

// One communication task.
class StreamSchedule {
 public:
  static absl::StatusOr<StreamSchedule> Create(const Task& task, ProgramDevices devices);

  const std::vector<DeviceId>& members() const { return members_; }  // indexed by rank
  size_t rounds() const { return rounds_; }
  // Whether some member overwrites in this round what others read.
  bool SendsSnapshot(size_t round) const {
    return round < schedule_.rounds.size() && schedule_.rounds[round].sends_snapshot;
  }
  // Scratch wanted, indexed by rank.
  std::vector<StreamMemory> WantedMemory() const;
  int64_t BytesReceived(size_t rank) const { return received_[rank]; }

  // Moves indexed by rank, then by round; `arguments` and `places` are by rank.
  std::vector<std::vector<StreamRound>> MovesFor(
      std::span<const CommunicationArguments* const> arguments,
      std::span<const StreamPlaces> places) const;

 private:
  friend class StreamMoves;
  struct Message {
    size_t from, to, round;
    int64_t bytes;
  };
  std::vector<Message> Messages() const;
  bool Reaches(size_t reader, size_t from) const {
    return devices_[reader]->Reaches(*devices_[from]);
  }
  size_t RankOf(DeviceId device) const;

  const Task* task_ = nullptr;
  std::vector<DeviceId> members_;
  std::vector<BackendDevice*> devices_;  // indexed by rank
  CollectiveSchedule schedule_;          // empty: transfers
  std::vector<int64_t> starts_;          // SliceStarts of a collective
  size_t rounds_ = 1;
  std::vector<int64_t> received_;  // bytes, by rank, in one run
};

}  // namespace partita

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

// What the members of a communication task enqueue on their streams when one thread enqueues for
// all: moves and waits only.
//
// A device that reaches the sender's memory reads it there. Else the sender first publishes what is
// read in host memory, and the reader either works on that, if its own memory is the host's, or
// fetches it.

// The devices of a program, by id.
using ProgramDevices = std::span<BackendDevice* const>;

// What one member does in one round. Moves that do not fit between the buffers themselves go
// through its scratch.
struct StreamRound {
  using Moves = std::vector<Stream::MoveArguments>;
  Moves publish;  // to host memory, before the round's barrier
  Moves fetch;    // from host memory, behind it
  Moves now;      // into its buffer, or where the round sends a snapshot into scratch first,
  Moves commit;   // and from there once nobody reads the old values any more
};

// Bytes that a device wants beside its buffers.
struct StreamMemory {
  int64_t assembled = 0;  // of the device: values that are put together apart
  int64_t fetched = 0;    // of the device: what it fetched in a round
  int64_t published = 0;  // of the host: what it publishes in a round; there are two of it
  void Enlarge(const StreamMemory& other);
};

// Where that memory is.
struct StreamPlaces {
  char* assembled = nullptr;
  char* fetched = nullptr;
  char* published[2] = {nullptr, nullptr};  // in turns: a round's is read until the next one ends
};

// One communication task.
class StreamSchedule {
 public:
  static absl::StatusOr<StreamSchedule> Create(const Task& task, ProgramDevices devices);

  const std::vector<DeviceId>& members() const { return members_; }  // by rank
  size_t rounds() const { return rounds_; }
  // Whether some member overwrites in this round what others read.
  bool SendsSnapshot(size_t round) const {
    return round < schedule_.rounds.size() && schedule_.rounds[round].sends_snapshot;
  }
  // By rank.
  std::vector<StreamMemory> WantedMemory() const;
  int64_t BytesReceived(size_t rank) const { return received_[rank]; }

  // By rank, then by round; `arguments` and `places` are by rank.
  std::vector<std::vector<StreamRound>> MovesFor(
      std::span<const CommunicationArguments* const> arguments,
      std::span<const StreamPlaces> places) const;

 private:
  friend class StreamMoves;
  // One message.
  struct Piece {
    size_t from, to, round;
    int64_t bytes;
  };
  std::vector<Piece> Pieces() const;
  bool Reaches(size_t reader, size_t from) const {
    return devices_[reader]->Reaches(*devices_[from]);
  }
  size_t RankOf(DeviceId device) const;

  const Task* task_ = nullptr;
  std::vector<DeviceId> members_;
  std::vector<BackendDevice*> devices_;  // by rank
  CollectiveSchedule schedule_;          // empty: transfers
  size_t rounds_ = 1;
  std::vector<int64_t> received_;  // bytes, by rank, in one run
};

}  // namespace partita

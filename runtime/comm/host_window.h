#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/comm/message_port.h"
#include "runtime/support/shared_memory.h"

namespace partita {

// The memory of devices of one host, each a process's, as every one of the processes sees it. Ranks
// that have met read and write each other's buffers where they are, until they part.
class HostWindow {
 public:
  // Places that a rank may name at one meeting.
  static constexpr size_t kMostPlaces = 1024;

  // Collective: all ranks of the port call it, with the shared memory of their device, which
  // outlives it. Null, on all ranks of a host, where one of them has none or does not get
  // another's, or no two share memory at all: then messages remain. `port` outlives it.
  static absl::StatusOr<std::unique_ptr<HostWindow>> Open(MessagePort& port,
                                                          std::span<const SharedMemory* const> own);

  // The ranks whose memory it shows, ascending, this one among them.
  const std::vector<int>& ranks() const { return ranks_; }

  // Tells the others where `own` are, addresses in this rank's memory or null, and waits until all
  // `members` have done so: two or more of ranks(), this one among them. All of them call it, with
  // the same tag; any two come to the meetings that they have in common in one order. Internal
  // where the tags differ.
  absl::Status Meet(std::span<const int> members, int tag, std::span<void* const> own);
  // Address here of a member's k-th place, from meeting to parting, for `bytes` bytes; null if it
  // is null there and they are 0. Internal if the member names fewer bytes or places.
  absl::StatusOr<char*> Place(int member, size_t k, int64_t bytes) const;
  // Waits until all members are done.
  absl::Status Part(std::span<const int> members);

 private:
  struct MemoryPlace;
  struct Desk;  // message of a rank to the others, in shared memory
  struct Peer {
    std::vector<SharedMemory> memory;  // the desk, then the device's; of this rank: none
    Desk* desk = nullptr;
    int64_t meetings = 0;  // arrivals and departures of this rank and the peer
  };

  HostWindow(MessagePort& port, std::vector<int> ranks, SharedMemory desk,
             std::span<const SharedMemory* const> own);
  absl::Status Reach(int rank, std::vector<SharedMemory> memory);
  absl::Status ReachAll(HostCircle& circle);
  static absl::StatusOr<bool> AllSay(MessagePort& port, bool yes);
  static constexpr size_t ArrivalsOffset();
  size_t DeskBytes() const;
  absl::StatusOr<MemoryPlace> PlaceOf(const char* address) const;
  absl::Status Arrive(std::span<const int> members);
  std::atomic<int64_t>& ArrivalAt(Desk* desk, int rank) const;
  Peer& PeerOf(int rank) { return peers_[IndexOf(rank)]; }
  size_t IndexOf(int rank) const;

  MessagePort& port_;
  const std::vector<int> ranks_;
  SharedMemory desk_;
  const std::vector<const SharedMemory*> own_;
  std::vector<Peer> peers_;  // indexed by place among the ranks
};

}  // namespace partita

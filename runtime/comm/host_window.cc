#include "runtime/comm/host_window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/host_circle.h"

// Every rank has a desk. On it lies for every other rank how often this one has come to a meeting
// with it or left one, and where its buffers are. Two ranks come to their common meetings in one
// order, so either is there when the numbers are equal. A rank changes its places only when all
// have left the meeting that they were for.

namespace partita {
namespace {

// A wait that long is not for the other cores' caches: the peer may need this core.
constexpr int kSpins = 200;

struct alignas(128) Arrivals {
  std::atomic<int64_t> count{0};
};

}  // namespace

struct HostWindow::MemoryPlace {
  int32_t memory = -1;  // among those of the rank's device; -1: null
  int64_t offset = 0;
};

struct HostWindow::Desk {
  int64_t tag = 0;
  int64_t size = 0;
  MemoryPlace places[kMostPlaces];
  // Behind it: Arrivals, by place among the ranks.
};

// Offset at which they begin after a desk.
constexpr size_t HostWindow::ArrivalsOffset() {
  return (sizeof(Desk) + alignof(Arrivals) - 1) / alignof(Arrivals) * alignof(Arrivals);
}

HostWindow::HostWindow(MessagePort& port, std::vector<int> ranks, SharedMemory desk,
                       std::span<const SharedMemory* const> own)
    : port_(port),
      ranks_(std::move(ranks)),
      desk_(std::move(desk)),
      own_(own.begin(), own.end()),
      peers_(ranks_.size()) {
  PeerOf(port.rank()).desk = reinterpret_cast<Desk*>(desk_.data());
}

size_t HostWindow::IndexOf(int rank) const {
  const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  CHECK(at != ranks_.end() && *at == rank) << "rank " << rank << " is elsewhere";
  return static_cast<size_t>(at - ranks_.begin());
}

std::atomic<int64_t>& HostWindow::ArrivalAt(Desk* desk, int rank) const {
  auto* all = reinterpret_cast<Arrivals*>(reinterpret_cast<char*>(desk) + ArrivalsOffset());
  return all[IndexOf(rank)].count;
}

size_t HostWindow::DeskBytes() const { return ArrivalsOffset() + ranks_.size() * sizeof(Arrivals); }

absl::Status HostWindow::Reach(int rank, std::vector<SharedMemory> memory) {
  Peer& peer = PeerOf(rank);
  if (memory.empty() || static_cast<size_t>(memory[0].bytes()) != DeskBytes()) {
    return absl::InternalError(absl::StrCat("rank ", rank, " gives no desk"));
  }
  peer.memory = std::move(memory);
  peer.desk = reinterpret_cast<Desk*>(peer.memory[0].data());
  return absl::OkStatus();
}

absl::Status HostWindow::ReachAll(HostCircle& circle) {
  std::vector<const SharedMemory*> given = {&desk_};
  given.insert(given.end(), own_.begin(), own_.end());
  ASSIGN_OR_RETURN(HostCircle::MemoryOfPeers memory, circle.Exchange(given));
  for (size_t k = 0; k < ranks_.size(); ++k) {
    if (ranks_[k] != port_.rank()) RETURN_IF_ERROR(Reach(ranks_[k], std::move(memory[k])));
  }
  return absl::OkStatus();
}

// Whether all ranks of this host say yes. Collective.
absl::StatusOr<bool> HostWindow::AllSay(MessagePort& port, bool yes) {
  ASSIGN_OR_RETURN(const auto who, GatherTexts(port, yes ? "yes" : ""));
  const std::vector<int> ranks = port.SharingRanks();
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](int rank) { return !who[static_cast<size_t>(rank)].empty(); });
}

absl::StatusOr<std::unique_ptr<HostWindow>> HostWindow::Open(
    MessagePort& port, std::span<const SharedMemory* const> own) {
  std::vector<int> ranks = port.SharingRanks();
  std::unique_ptr<HostWindow> window;
  const bool circled = port.circle() != nullptr && port.circle()->locals() == ranks;
  if (ranks.size() > 1 && circled && !own.empty()) {
    const size_t bytes = ArrivalsOffset() + ranks.size() * sizeof(Arrivals);
    auto desk = SharedMemory::Make(static_cast<int64_t>(bytes));
    if (desk.ok()) window.reset(new HostWindow(port, std::move(ranks), *std::move(desk), own));
  }
  ASSIGN_OR_RETURN(const bool all_give, AllSay(port, window != nullptr));
  const bool reached = all_give && window->ReachAll(*port.circle()).ok();
  ASSIGN_OR_RETURN(const bool all_reached, AllSay(port, reached));
  if (!all_reached) return nullptr;
  return window;
}

absl::StatusOr<HostWindow::MemoryPlace> HostWindow::PlaceOf(const char* address) const {
  if (address == nullptr) return MemoryPlace{};
  bool behind = false;  // nothing is there to be read
  for (size_t m = 0; m < own_.size(); ++m) {
    if (own_[m]->holds(address)) {
      return MemoryPlace{static_cast<int32_t>(m), address - own_[m]->data()};
    }
    behind = behind || address == own_[m]->data() + own_[m]->bytes();
  }
  if (behind) return MemoryPlace{};
  return absl::InternalError("a buffer is not in its device's memory");
}

absl::Status HostWindow::Meet(std::span<const int> members, int tag, std::span<void* const> own) {
  CHECK_LE(own.size(), kMostPlaces);
  Desk& desk = *PeerOf(port_.rank()).desk;
  desk.tag = tag;
  desk.size = static_cast<int64_t>(own.size());
  for (size_t k = 0; k < own.size(); ++k) {
    ASSIGN_OR_RETURN(const MemoryPlace place, PlaceOf(static_cast<const char*>(own[k])));
    desk.places[k] = place;
  }
  RETURN_IF_ERROR(Arrive(members));
  for (const int rank : members) {
    const int64_t theirs = PeerOf(rank).desk->tag;
    if (theirs == tag) continue;
    return absl::InternalError(absl::StrCat("rank ", rank, " is at task ", theirs, ", this one at ",
                                            tag, ": the ranks do not run the same plan"));
  }
  return absl::OkStatus();
}

absl::StatusOr<char*> HostWindow::Place(int member, size_t k, int64_t bytes) const {
  const Peer& peer = peers_[IndexOf(member)];
  if (k >= kMostPlaces || static_cast<int64_t>(k) >= peer.desk->size) {
    return absl::InternalError(
        absl::StrCat("rank ", member, " names ", peer.desk->size, " places; wanted more than ", k));
  }
  const MemoryPlace place = peer.desk->places[k];
  if (place.memory < 0 && bytes == 0) return nullptr;
  const bool is_own = member == port_.rank();
  const size_t count = is_own ? own_.size() : peer.memory.size() - 1;
  const auto m = static_cast<size_t>(place.memory);
  if (place.memory >= 0 && m < count) {
    const SharedMemory& memory = is_own ? *own_[m] : peer.memory[m + 1];
    if (place.offset >= 0 && bytes <= memory.bytes() && place.offset <= memory.bytes() - bytes) {
      return memory.data() + place.offset;
    }
  }
  return absl::InternalError(absl::StrCat("rank ", member, " names a place with fewer than ", bytes,
                                          " bytes: the ranks do not run the same plan"));
}

absl::Status HostWindow::Part(std::span<const int> members) { return Arrive(members); }

absl::Status HostWindow::Arrive(std::span<const int> members) {
  const int own = port_.rank();
  for (const int rank : members) {
    if (rank == own) continue;
    ArrivalAt(PeerOf(own).desk, rank).store(++PeerOf(rank).meetings, std::memory_order_release);
  }
  for (const int rank : members) {
    if (rank == own) continue;
    const Peer& peer = PeerOf(rank);
    const auto& theirs = ArrivalAt(peer.desk, own);
    const auto is_there = [&] { return theirs.load(std::memory_order_acquire) >= peer.meetings; };
    int spins = 0;
    while (!is_there() && ++spins < kSpins) {
    }
    if (is_there()) continue;
    RETURN_IF_ERROR(port_.Await([&]() -> absl::StatusOr<bool> { return is_there(); }));
  }
  return absl::OkStatus();
}

}  // namespace partita

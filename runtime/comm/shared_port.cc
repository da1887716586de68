#include "runtime/comm/shared_port.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"
#include "runtime/comm/host_circle.h"
#include "runtime/support/process_identity.h"
#include "runtime/support/shared_memory.h"

// For every ordered pair of ranks on a host there is a ring of bytes in a piece of memory that all
// of them map. A message is a head, then its bytes, padded to kAlign. The writer moves `written`
// on, the reader `read`; both only grow.

namespace partita {
namespace {

constexpr int64_t kRing = 1 << 19;  // bytes, a power of two; two of them stay in a core's cache
static_assert((kRing & (kRing - 1)) == 0);
constexpr int64_t kPiece = 1 << 16;  // that the other side is told of at once
constexpr int64_t kAlign = 64;

struct alignas(128) Ring {
  std::atomic<int64_t> written{0};
  alignas(128) std::atomic<int64_t> read{0};
  alignas(128) char bytes[kRing];
};

struct alignas(kAlign) Head {
  int64_t bytes = 0;
  int64_t tag = 0;
};
static_assert(sizeof(Head) == kAlign);

int64_t Padded(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

using Message = MessagePort::Message;

// One direction of one pair, in one exchange.
class Flow {
 public:
  void Start(Ring& ring, int tag) {
    ring_ = &ring;
    tag_ = tag;
    messages_.clear();
    current_ = 0;
    at_ = -static_cast<int64_t>(sizeof(Head));
  }
  void Add(const Message& message) { messages_.push_back(&message); }
  bool done() const { return current_ == messages_.size(); }

  absl::Status AdvanceSend() {
    while (!done()) {
      const Message& message = *messages_[current_];
      const int64_t written = ring_->written.load(std::memory_order_relaxed);
      const int64_t room = kRing - (written - ring_->read.load(std::memory_order_acquire));
      if (room == 0) return absl::OkStatus();
      if (room < 0 || room > kRing) return Broken(message);
      int64_t moved = static_cast<int64_t>(sizeof(Head));
      if (at_ < 0) {
        const Head head{message.bytes, tag_};
        std::memcpy(At(written), &head, sizeof head);
      } else {
        moved = Extent(message, written, room);
        const int64_t left = std::min(moved, message.bytes - at_);
        std::memcpy(At(written), static_cast<const char*>(message.data) + at_,
                    static_cast<size_t>(left));
      }
      ring_->written.store(written + moved, std::memory_order_release);
      Move(message, moved);
    }
    return absl::OkStatus();
  }

  absl::Status AdvanceReceive() {
    while (!done()) {
      const Message& message = *messages_[current_];
      const int64_t read = ring_->read.load(std::memory_order_relaxed);
      const int64_t there = ring_->written.load(std::memory_order_acquire) - read;
      if (there == 0) return absl::OkStatus();
      if (there < 0 || there > kRing) return Broken(message);
      int64_t moved = static_cast<int64_t>(sizeof(Head));
      if (at_ < 0) {
        RETURN_IF_ERROR(CheckHead(message, At(read)));
      } else {
        moved = Extent(message, read, there);
        Take(message, At(read), std::min(moved, message.bytes - at_));
      }
      ring_->read.store(read + moved, std::memory_order_release);
      Move(message, moved);
    }
    return absl::OkStatus();
  }

 private:
  // Within the ring, whatever the position.
  static int64_t InRing(int64_t position) { return position & (kRing - 1); }
  char* At(int64_t position) const { return ring_->bytes + InRing(position); }

  // The other side of a ring is never more than a ring ahead, and never behind.
  static absl::Status Broken(const Message& message) {
    return absl::InternalError(
        absl::StrCat("rank ", message.peer, " has overwritten the memory that is shared with it"));
  }

  // How much of the message can be moved at once: a multiple of kAlign.
  int64_t Extent(const Message& message, int64_t position, int64_t available) const {
    return std::min({Padded(message.bytes - at_), available, kRing - InRing(position), kPiece});
  }

  void Move(const Message& message, int64_t moved) {
    at_ += moved;
    if (at_ < message.bytes) return;
    ++current_;
    at_ = -static_cast<int64_t>(sizeof(Head));
  }

  absl::Status CheckHead(const Message& message, const char* from) const {
    Head head;
    std::memcpy(&head, from, sizeof head);
    if (head.bytes == message.bytes && head.tag == tag_) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(
        "a message from rank ", message.peer, " has ", head.bytes, " bytes and tag ", head.tag,
        "; wanted ", message.bytes, " and ", tag_, ": the ranks do not run the same plan"));
  }

  void Take(const Message& message, const char* from, int64_t bytes) const {
    char* into = static_cast<char*>(message.data) + at_;
    if (!message.reduce.has_value()) {
      std::memcpy(into, from, static_cast<size_t>(bytes));
      return;
    }
    FoldTwo(*message.reduce, into, from, bytes);
  }

  Ring* ring_ = nullptr;
  int tag_ = 0;
  std::vector<const Message*> messages_;
  size_t current_ = 0;
  int64_t at_ = 0;  // in the current message; negative: before its head
};

class SharedPort : public MessagePort {
 public:
  SharedPort(std::unique_ptr<MessagePort> outer, std::unique_ptr<HostCircle> circle,
             SharedMemory rings)
      : outer_(std::move(outer)),
        circle_(std::move(circle)),
        locals_(circle_->locals()),
        rings_(std::move(rings)),
        place_(static_cast<size_t>(outer_->size()), -1),
        sends_(locals_.size()),
        receives_(locals_.size()) {
    for (size_t k = 0; k < locals_.size(); ++k) {
      place_[static_cast<size_t>(locals_[k])] = static_cast<int>(k);
    }
  }

  ~SharedPort() override {
    if (const absl::Status reason = Reason(); !reason.ok()) outer_->Abort(reason);
  }

  int rank() const override { return outer_->rank(); }
  int size() const override { return outer_->size(); }
  std::vector<int> SharingRanks() const override { return locals_; }
  HostCircle* circle() override { return circle_.get(); }
  bool AwaitsNetwork() const override {
    return inside_done_ && !outside_done_ && outer_->AwaitsNetwork();
  }

  absl::Status Begin(std::span<const Message> messages, int tag) override {
    const int own = place_[static_cast<size_t>(rank())];
    for (size_t k = 0; k < locals_.size(); ++k) {
      sends_[k].Start(RingOf(own, static_cast<int>(k)), tag);
      receives_[k].Start(RingOf(static_cast<int>(k), own), tag);
    }
    outside_.clear();
    for (const Message& message : messages) {
      const int peer = place_[static_cast<size_t>(message.peer)];
      if (peer < 0) {
        outside_.push_back(message);
      } else if (message.bytes > 0) {
        (message.receives ? receives_ : sends_)[static_cast<size_t>(peer)].Add(message);
      }
    }
    outside_done_ = outside_.empty();
    return outside_done_ ? absl::OkStatus() : outer_->Begin(outside_, tag);
  }

  absl::StatusOr<bool> Advance() override {
    inside_done_ = true;
    for (size_t k = 0; k < locals_.size(); ++k) {
      RETURN_IF_ERROR(sends_[k].AdvanceSend());
      RETURN_IF_ERROR(receives_[k].AdvanceReceive());
      inside_done_ = inside_done_ && sends_[k].done() && receives_[k].done();
    }
    if (!outside_done_) {
      ASSIGN_OR_RETURN(outside_done_, outer_->Advance());
    }
    return inside_done_ && outside_done_;
  }

 private:
  Ring& RingOf(int from, int to) const {
    return reinterpret_cast<Ring*>(
        rings_.data())[static_cast<size_t>(from) * locals_.size() + static_cast<size_t>(to)];
  }
  std::unique_ptr<MessagePort> outer_;
  const std::unique_ptr<HostCircle> circle_;
  const std::vector<int> locals_;       // the ranks of this host, this one included
  SharedMemory rings_;                  // zeros at first, which is what an empty ring is
  std::vector<int> place_;              // by rank: among the locals, or -1
  std::vector<Flow> sends_, receives_;  // by local
  std::vector<Message> outside_;
  bool inside_done_ = true, outside_done_ = true;
};

// The lowest rank makes them for all.
absl::StatusOr<SharedMemory> RingsOf(HostCircle& circle, int own) {
  const size_t ranks = circle.locals().size();
  const auto bytes = static_cast<int64_t>(ranks * ranks * sizeof(Ring));
  if (own == circle.locals()[0]) {
    auto made = SharedMemory::Make(bytes);
    const SharedMemory* given = made.ok() ? &*made : nullptr;
    RETURN_IF_ERROR(
        circle.Exchange(std::span(&given, given == nullptr ? size_t{0} : size_t{1})).status());
    return made;
  }
  ASSIGN_OR_RETURN(HostCircle::MemoryOfPeers given, circle.Exchange({}));
  if (given[0].size() != 1 || given[0][0].bytes() != bytes) {
    return absl::UnavailableError("the lowest rank of this host gives other memory than wanted");
  }
  return std::move(given[0][0]);
}

}  // namespace

absl::Status ShareMemory(std::unique_ptr<MessagePort>& port, const RunKey& key) {
  ASSIGN_OR_RETURN(const auto hosts, GatherTexts(*port, HostIdentity()));
  const int own = port->rank();
  std::vector<int> locals;
  for (int rank = 0; rank < port->size(); ++rank) {
    if (hosts[static_cast<size_t>(rank)] == hosts[static_cast<size_t>(own)]) locals.push_back(rank);
  }
  ASSIGN_OR_RETURN(auto circle, HostCircle::Open(*port, locals, key));
  absl::StatusOr<SharedMemory> rings = absl::UnavailableError("nobody shares memory");
  if (circle != nullptr) rings = RingsOf(*circle, own);
  ASSIGN_OR_RETURN(const auto who, GatherTexts(*port, rings.ok() ? "mapped" : ""));
  const bool all = std::all_of(locals.begin(), locals.end(),
                               [&](int rank) { return !who[static_cast<size_t>(rank)].empty(); });
  if (all) {
    port = std::make_unique<SharedPort>(std::move(port), std::move(circle), *std::move(rings));
  }
  return absl::OkStatus();
}

}  // namespace partita

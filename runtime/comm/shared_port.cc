#include "runtime/comm/shared_port.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"
#include "runtime/support/shared_memory.h"

// For every ordered pair of ranks on a host there is a ring of bytes in a piece of memory that all
// of them map. A message is a head, then its bytes, padded to kAlign. The writer moves `written`
// on, the reader `read`; both only grow.

namespace partita {
namespace {

constexpr int64_t kRing = 1 << 19;   // bytes; two of them stay in a core's cache
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

  void AdvanceSend() {
    while (!done()) {
      const Message& message = *messages_[current_];
      const int64_t written = ring_->written.load(std::memory_order_relaxed);
      const int64_t room = kRing - (written - ring_->read.load(std::memory_order_acquire));
      if (room == 0) return;
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
  }

  absl::Status AdvanceReceive() {
    while (!done()) {
      const Message& message = *messages_[current_];
      const int64_t read = ring_->read.load(std::memory_order_relaxed);
      const int64_t there = ring_->written.load(std::memory_order_acquire) - read;
      if (there == 0) return absl::OkStatus();
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
  char* At(int64_t position) const { return ring_->bytes + position % kRing; }

  // How much of the message can be moved at once: a multiple of kAlign.
  int64_t Extent(const Message& message, int64_t position, int64_t available) const {
    return std::min({Padded(message.bytes - at_), available, kRing - position % kRing, kPiece});
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
    if (!message.combine.has_value()) {
      std::memcpy(into, from, static_cast<size_t>(bytes));
      return;
    }
    FoldTwo(*message.combine, into, from, bytes);
  }

  Ring* ring_ = nullptr;
  int tag_ = 0;
  std::vector<const Message*> messages_;
  size_t current_ = 0;
  int64_t at_ = 0;  // in the current message; negative: before its head
};

class SharedPort : public MessagePort {
 public:
  // `locals`: the ranks of this host, this one included.
  SharedPort(std::unique_ptr<MessagePort> outer, std::vector<int> locals, SharedMemory rings)
      : outer_(std::move(outer)),
        locals_(std::move(locals)),
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
      sends_[k].AdvanceSend();
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
  const std::vector<int> locals_;
  SharedMemory rings_;                  // zeros at first, which is what an empty ring is
  std::vector<int> place_;              // by rank: among the locals, or -1
  std::vector<Flow> sends_, receives_;  // by local
  std::vector<Message> outside_;
  bool inside_done_ = true, outside_done_ = true;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MessagePort>> ShareMemory(std::unique_ptr<MessagePort> outer) {
  ASSIGN_OR_RETURN(const auto hosts, GatherTexts(*outer, HostIdentity()));
  std::vector<int> locals;
  for (int rank = 0; rank < outer->size(); ++rank) {
    if (hosts[static_cast<size_t>(rank)] == hosts[static_cast<size_t>(outer->rank())]) {
      locals.push_back(rank);
    }
  }
  SharedMemory rings;
  std::string name;
  if (locals.size() > 1 && locals[0] == outer->rank()) {
    auto made =
        SharedMemory::Make(static_cast<int64_t>(locals.size() * locals.size() * sizeof(Ring)));
    if (made.ok()) {
      rings = *std::move(made);
      name = rings.name();
    }
  }
  ASSIGN_OR_RETURN(const auto names, GatherTexts(*outer, name));
  const std::string& theirs = names[static_cast<size_t>(locals[0])];
  if (locals[0] != outer->rank() && !theirs.empty()) {
    auto opened = SharedMemory::Open(theirs);
    if (opened.ok()) rings = *std::move(opened);
  }
  ASSIGN_OR_RETURN(const auto who, GatherTexts(*outer, rings.data() != nullptr ? "mapped" : ""));
  const bool all = std::all_of(locals.begin(), locals.end(),
                               [&](int rank) { return !who[static_cast<size_t>(rank)].empty(); });
  if (!all) return outer;
  return std::make_unique<SharedPort>(std::move(outer), std::move(locals), std::move(rings));
}

}  // namespace partita

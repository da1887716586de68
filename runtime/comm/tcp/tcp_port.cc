#include "runtime/comm/tcp/tcp_port.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"
#include "runtime/comm/tcp/connection.h"
#include "runtime/comm/tcp/tcp_meeting.h"

// Once the ranks have met, a message on a socket is a head and its bytes.

namespace partita {
namespace {

constexpr size_t kPiece = 1 << 18;  // bytes that are received at once where they are combined

struct Head {
  int64_t bytes = 0;
  int64_t tag = 0;
};

using Message = MessagePort::Message;

// One peer in one exchange: what goes to it and what comes from it.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) {}

  void Start(int tag) {
    tag_ = tag;
    sends_.clear();
    receives_.clear();
    sent_ = received_ = 0;
    sending_ = receiving_ = 0;
  }
  void Add(const Message& message) { (message.receives ? receives_ : sends_).push_back(&message); }
  bool done() const { return sending_ == sends_.size() && receiving_ == receives_.size(); }

  absl::Status AdvanceSend() {
    while (sending_ < sends_.size()) {
      const Message& message = *sends_[sending_];
      const Head head{message.bytes, tag_};
      const bool heads = sent_ < kHead;
      const char* from = heads ? reinterpret_cast<const char*>(&head) + sent_
                               : static_cast<const char*>(message.data) + (sent_ - kHead);
      const int64_t left = heads ? kHead - sent_ : kHead + message.bytes - sent_;
      const ssize_t moved = send(socket_, from, static_cast<size_t>(left),
                                 MSG_NOSIGNAL | (heads && message.bytes > 0 ? MSG_MORE : 0));
      if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
      if (moved < 0) return Lost(message.peer);
      sent_ += moved;
      if (sent_ < kHead + message.bytes) continue;
      ++sending_;
      sent_ = 0;
    }
    return absl::OkStatus();
  }

  absl::Status AdvanceReceive() {
    while (receiving_ < receives_.size()) {
      const Message& message = *receives_[receiving_];
      const ssize_t moved = received_ < kHead ? Read(reinterpret_cast<char*>(&head_) + received_,
                                                     static_cast<size_t>(kHead - received_))
                                              : ReadInto(message);
      if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
      if (moved <= 0) return Lost(message.peer);
      received_ += moved;
      if (received_ == kHead) RETURN_IF_ERROR(CheckHead(message));
      if (received_ < kHead + message.bytes) continue;
      ++receiving_;
      received_ = 0;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kHead = sizeof(Head);

  ssize_t Read(char* into, size_t bytes) const { return recv(socket_, into, bytes, 0); }

  ssize_t ReadInto(const Message& message) {
    const int64_t at = received_ - kHead;
    char* into = static_cast<char*>(message.data) + at;
    const auto left = static_cast<size_t>(message.bytes - at);
    if (!message.reduce.has_value()) return Read(into, left);
    // Whole elements only: what is left of one stays in front of the next piece.
    piece_.resize(kPiece);
    const ssize_t moved = Read(piece_.data() + kept_, std::min(left, kPiece - kept_));
    if (moved <= 0) return moved;
    const size_t there = kept_ + static_cast<size_t>(moved);
    const auto size = static_cast<size_t>(SizeOf(message.reduce->dtype));
    const size_t whole = there / size * size;
    FoldTwo(*message.reduce, into - kept_, piece_.data(), static_cast<int64_t>(whole));
    kept_ = there - whole;
    std::memmove(piece_.data(), piece_.data() + whole, kept_);
    return moved;
  }

  absl::Status CheckHead(const Message& message) const {
    if (head_.bytes == message.bytes && head_.tag == tag_) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(
        "a message from rank ", message.peer, " has ", head_.bytes, " bytes and tag ", head_.tag,
        "; wanted ", message.bytes, " and ", tag_, ": the ranks do not run the same plan"));
  }

  static absl::Status Lost(int peer) {
    return absl::UnavailableError(absl::StrCat("the connection to rank ", peer, " was lost"));
  }

  const int socket_;
  int tag_ = 0;
  std::vector<const Message*> sends_, receives_;
  size_t sending_ = 0, receiving_ = 0;  // which of them
  int64_t sent_ = 0, received_ = 0;     // bytes of it, its head included
  Head head_;
  std::vector<char> piece_;
  size_t kept_ = 0;
};

class TcpPort : public MessagePort {
 public:
  TcpPort(int rank, std::vector<int> sockets) : rank_(rank), sockets_(std::move(sockets)) {
    for (int socket : sockets_) lines_.emplace_back(socket);
  }
  ~TcpPort() override {
    for (int socket : sockets_) {
      if (socket >= 0) close(socket);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(sockets_.size()); }

  bool AwaitsNetwork() const override { return true; }

  absl::Status Begin(std::span<const Message> messages, int tag) override {
    for (Line& line : lines_) line.Start(tag);
    for (const Message& message : messages) {
      if (message.bytes > 0) lines_[static_cast<size_t>(message.peer)].Add(message);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Advance() override {
    bool done = true;
    for (Line& line : lines_) {
      RETURN_IF_ERROR(line.AdvanceSend());
      RETURN_IF_ERROR(line.AdvanceReceive());
      done = done && line.done();
    }
    return done;
  }

 private:
  const int rank_;
  const std::vector<int> sockets_;  // by rank; -1: its own
  std::vector<Line> lines_;
};

}  // namespace

absl::StatusOr<KeyedPort> OpenTcpPort(const TcpMeeting& meeting) {
  ASSIGN_OR_RETURN(MetRanks met, MeetRanks(meeting));
  std::vector<int> sockets;
  for (const auto& connection : met.connections) {
    sockets.push_back(connection == nullptr ? -1 : connection->Release());
  }
  return KeyedPort{MakeTcpPort(meeting.rank, std::move(sockets)), std::move(met.key)};
}

std::unique_ptr<MessagePort> MakeTcpPort(int rank, std::vector<int> sockets) {
  return std::make_unique<TcpPort>(rank, std::move(sockets));
}

}  // namespace partita

#include "runtime/comm/tcp/tcp_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/support/clock.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"
#include "runtime/comm/tcp/connection.h"

// Meeting: every rank listens. All tell rank 0 where; it tells everybody; then each rank connects
// to all lower ones, and says which it is. From then on a message on a socket is a head and its
// bytes.

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
    if (!message.combine.has_value()) return Read(into, left);
    // Whole elements only: what is left of one stays in front of the next piece.
    piece_.resize(kPiece);
    const ssize_t moved = Read(piece_.data() + kept_, std::min(left, kPiece - kept_));
    if (moved <= 0) return moved;
    const size_t there = kept_ + static_cast<size_t>(moved);
    const auto size = static_cast<size_t>(SizeOf(message.combine->dtype));
    const size_t whole = there / size * size;
    FoldTwo(*message.combine, into - kept_, piece_.data(), static_cast<int64_t>(whole));
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

// IPv4 addresses of a host.
std::vector<std::string> AddressesOf(const std::string& host) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  std::vector<std::string> addresses;
  if (getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry->ai_addr)->sin_addr, text,
              sizeof text);
    addresses.emplace_back(text);
  }
  freeaddrinfo(found);
  return addresses;
}

struct Peers {
  std::vector<std::unique_ptr<Connection>> connections;  // by rank; null: not yet, or its own
};

// Takes connections in until `wanted` ranks above `own` have said who they are; what else each says
// goes to `words`.
absl::Status TakeIn(Listener& listener, double seconds, int own, Peers& peers, int wanted,
                    std::vector<std::string>& words) {
  const int64_t end = SteadyNow() + static_cast<int64_t>(seconds * 1e9);
  for (int known = 0; known < wanted;) {
    if (SteadyNow() > end) {
      std::string missing;
      for (size_t r = static_cast<size_t>(own) + 1; r < peers.connections.size(); ++r) {
        if (peers.connections[r] == nullptr) absl::StrAppend(&missing, " ", r);
      }
      return absl::UnavailableError(
          absl::StrCat("ranks", missing, " did not come to rank ", own, " within ", seconds, " s"));
    }
    WaitToRead({listener.socket()}, 50);
    auto connection = listener.Accept();
    if (connection == nullptr) continue;
    const auto said = connection->ReceiveOne(5);
    if (!said.ok()) continue;
    const std::vector<std::string> parts = absl::StrSplit(*said, absl::MaxSplits(' ', 1));
    int rank = -1;
    if (!absl::SimpleAtoi(parts[0], &rank) || rank <= own ||
        rank >= static_cast<int>(peers.connections.size()) ||
        peers.connections[static_cast<size_t>(rank)] != nullptr) {
      continue;
    }
    words[static_cast<size_t>(rank)] = parts.size() > 1 ? parts[1] : "";
    peers.connections[static_cast<size_t>(rank)] = std::move(connection);
    ++known;
  }
  return absl::OkStatus();
}

// Where a rank listens: "PORT ADDRESS ADDRESS...".
std::string PlaceOf(const Listener& listener) {
  return absl::StrCat(listener.port(), " ", absl::StrJoin(HostAddresses(), " "));
}

absl::StatusOr<std::unique_ptr<Connection>> ConnectTo(const std::string& place, double seconds) {
  const std::vector<std::string> words = absl::StrSplit(place, ' ');
  int port = 0;
  if (words.size() < 2 || !absl::SimpleAtoi(words[0], &port)) {
    return absl::UnavailableError("a rank does not say where it listens");
  }
  return Connection::Open({words.begin() + 1, words.end()}, port, seconds);
}

// Rank 0 learns where all listen and tells it to all.
absl::StatusOr<std::vector<std::string>> ShareThePlaces(const TcpMeeting& m, Listener& listener,
                                                        Peers& peers) {
  std::vector<std::string> places(static_cast<size_t>(m.size));
  RETURN_IF_ERROR(TakeIn(listener, m.seconds, 0, peers, m.size - 1, places));
  places[0] = "-";
  for (const auto& connection : peers.connections) {
    if (connection != nullptr) connection->Send(absl::StrJoin(places, "\n"));
  }
  return places;
}

absl::Status MeetAsRank0(const TcpMeeting& m, Peers& peers) {
  ASSIGN_OR_RETURN(const auto listener, Listener::OpenAt(m.port));
  return ShareThePlaces(m, *listener, peers).status();
}

absl::Status MeetAsOther(const TcpMeeting& m, Peers& peers) {
  ASSIGN_OR_RETURN(const auto listener, Listener::Open());
  const std::vector<std::string> addresses = AddressesOf(m.address);
  if (addresses.empty()) {
    return absl::UnavailableError(absl::StrCat("unknown host '", m.address, "' of rank 0"));
  }
  ASSIGN_OR_RETURN(peers.connections[0], Connection::Open(addresses, m.port, m.seconds));
  peers.connections[0]->Send(absl::StrCat(m.rank, " ", PlaceOf(*listener)));
  ASSIGN_OR_RETURN(const std::string table, peers.connections[0]->ReceiveOne(m.seconds));
  const std::vector<std::string> places = absl::StrSplit(table, '\n');
  for (size_t peer = 1; peer < static_cast<size_t>(m.rank) && peer < places.size(); ++peer) {
    ASSIGN_OR_RETURN(peers.connections[peer], ConnectTo(places[peer], m.seconds));
    peers.connections[peer]->Send(absl::StrCat(m.rank));
  }
  std::vector<std::string> words(static_cast<size_t>(m.size));
  return TakeIn(*listener, m.seconds, m.rank, peers, m.size - 1 - m.rank, words);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MessagePort>> OpenTcpPort(const TcpMeeting& m) {
  if (m.size < 1 || m.rank < 0 || m.rank >= m.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", m.rank, " of ", m.size, " processes: there is no such rank"));
  }
  Peers peers;
  peers.connections.resize(static_cast<size_t>(m.size));
  RETURN_IF_ERROR(m.rank == 0 ? MeetAsRank0(m, peers) : MeetAsOther(m, peers));
  std::vector<int> sockets;
  for (const auto& connection : peers.connections) {
    sockets.push_back(connection == nullptr ? -1 : connection->Release());
  }
  return std::make_unique<TcpPort>(m.rank, std::move(sockets));
}

}  // namespace partita

#include "runtime/comm/tcp/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "graph/support/clock.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int kBacklog = 128;
constexpr int kLookAgain = 50;  // ms, the longest wait for a socket at a time

// A wait for a socket, in ms: no longer than until `end`, and then as much as the clock is coarse.
int WaitUntil(int64_t end) {
  const int64_t left = (end - SteadyNow()) / 1'000'000 + 1;
  return static_cast<int>(std::clamp<int64_t>(left, 1, kLookAgain));
}

absl::Status SocketError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

void SetUp(int socket) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Whether a socket is connected to itself: where no process listens at a port of this host, the
// system may choose that very port for the side that connects.
bool IsOwnPeer(int socket) {
  sockaddr_in own{}, peer{};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
         own.sin_port == peer.sin_port && own.sin_addr.s_addr == peer.sin_addr.s_addr;
}

// A connected socket, or -1.
int Connect(const std::string& address, int port, int milliseconds) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return -1;
  const int found = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (found < 0) return -1;
  SetUp(found);
  int error = 0;
  if (connect(found, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    pollfd wait{found, POLLOUT, 0};
    error = errno;
    socklen_t size = sizeof error;
    if (error == EINPROGRESS && poll(&wait, 1, milliseconds) == 1) {
      getsockopt(found, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error != 0 || IsOwnPeer(found)) {
    close(found);
    return -1;
  }
  return found;
}

// The address of a Unix socket without a file: a zero, then the name.
struct UnixAddress {
  explicit UnixAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, name.data(), length);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t size = 0;
};

// The user of the process at the other end of a Unix socket, when it connected or listened.
std::optional<uid_t> UserOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

bool IsUnix(int socket) {
  int domain = AF_INET;
  socklen_t size = sizeof domain;
  return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

}  // namespace

Connection::Connection(int socket, size_t longest) : socket_(socket), longest_(longest) {
  SetUp(socket);
}

Connection::~Connection() {
  if (socket_ >= 0) close(socket_);
}

int Connection::Release() {
  const int socket = socket_;
  socket_ = -1;
  return socket;
}

absl::Status Connection::ReceiveExactly(void* into, size_t bytes, int64_t end) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = recv(socket_, static_cast<char*>(into) + at, bytes - at, 0);
    if (got > 0) {
      at += static_cast<size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return absl::UnavailableError("the connection was closed");
    } else if (SteadyNow() > end) {
      return absl::UnavailableError("a peer says nothing");
    } else {
      WaitToRead({socket_}, WaitUntil(end));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Connection::ReceiveOne(double seconds) {
  const int64_t end = SteadyNow() + static_cast<int64_t>(seconds * 1e9);
  uint32_t size = 0;
  RETURN_IF_ERROR(ReceiveExactly(&size, sizeof size, end));
  if (size > longest_) return absl::UnavailableError("the connection carries something else");
  std::string message(size, '\0');
  RETURN_IF_ERROR(ReceiveExactly(message.data(), size, end));
  return message;
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& address, int port,
                                                             double seconds) {
  const int socket = Connect(address, port, static_cast<int>(std::max(seconds, 0.0) * 1e3));
  if (socket >= 0) return std::make_unique<Connection>(socket);
  return absl::UnavailableError(absl::StrCat("no connection to port ", port, " at ", address));
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::OpenUnix(const std::string& name) {
  const int found = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (found < 0) return SocketError("a socket");
  auto connection = std::make_unique<Connection>(found);
  const UnixAddress to(name);
  if (connect(found, to.get(), to.size) != 0) {
    if (errno == ECONNREFUSED) return absl::NotFoundError("nobody of this host listens there");
    return SocketError("no connection within this host");
  }
  const auto user = UserOf(found);
  if (user == geteuid()) return connection;
  return absl::PermissionDeniedError(
      absl::StrCat("the socket '", name, "' belongs to user ",
                   user.has_value() ? absl::StrCat(*user) : "unknown", "; wanted ", geteuid()));
}

void Connection::Send(const std::string& message) {
  const auto size = static_cast<uint32_t>(message.size());
  out_.append(reinterpret_cast<const char*>(&size), sizeof size);
  out_ += message;
  Flush();
}

absl::Status Connection::Drain(double seconds) {
  const int64_t end = SteadyNow() + static_cast<int64_t>(seconds * 1e9);
  for (Flush(); !out_.empty() && !broken_; Flush()) {
    if (SteadyNow() > end) return absl::UnavailableError("a peer takes nothing");
    pollfd wait{socket_, POLLOUT, 0};
    poll(&wait, 1, WaitUntil(end));
  }
  return broken_ ? absl::UnavailableError("the connection was closed") : absl::OkStatus();
}

void Connection::Flush() {
  while (!out_.empty() && !broken_) {
    const ssize_t sent = send(socket_, out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      out_.erase(0, static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      broken_ = true;
    }
  }
}

absl::StatusOr<std::vector<std::string>> Connection::Receive() {
  Flush();
  char data[4096];
  uint32_t size = 0;
  bool ended = broken_;
  // No more than a whole message: what is after it waits in the system.
  while (in_.size() < sizeof size + longest_) {
    const ssize_t got =
        recv(socket_, data, std::min(sizeof data, sizeof size + longest_ - in_.size()), 0);
    if (got > 0) {
      in_.append(data, static_cast<size_t>(got));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      ended |= got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
      break;
    }
  }
  std::vector<std::string> messages;
  size_t at = 0;
  while (in_.size() - at >= sizeof size) {
    std::memcpy(&size, in_.data() + at, sizeof size);
    if (size > longest_) return absl::UnavailableError("the connection carries something else");
    if (in_.size() - at < sizeof size + size) break;
    messages.push_back(in_.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  in_.erase(0, at);
  if (ended && messages.empty()) return absl::UnavailableError("the connection was closed");
  return messages;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(Reach reach, int port) {
  const int found = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (found < 0) return SocketError("a socket");
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(reach == Reach::kThisHost ? INADDR_LOOPBACK : INADDR_ANY);
  at.sin_port = htons(static_cast<uint16_t>(port));
  const int on = 1;
  setsockopt(found, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t size = sizeof at;
  if (bind(found, reinterpret_cast<const sockaddr*>(&at), size) != 0 ||
      listen(found, kBacklog) != 0 ||
      getsockname(found, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
    const absl::Status status = SocketError("a socket to listen on");
    close(found);
    return status;
  }
  return std::unique_ptr<Listener>(new Listener(found, ntohs(at.sin_port)));
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::OpenUnix(const std::string& name) {
  const int found = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (found < 0) return SocketError("a socket");
  const UnixAddress at(name);
  if (bind(found, at.get(), at.size) != 0 || listen(found, kBacklog) != 0) {
    const absl::Status status = SocketError("a socket to listen on within this host");
    close(found);
    return status;
  }
  return std::unique_ptr<Listener>(new Listener(found, 0));
}

Listener::~Listener() { close(socket_); }

std::unique_ptr<Connection> Listener::Accept(size_t longest) {
  for (;;) {
    const int found = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (found < 0) return nullptr;
    if (!IsUnix(found) || UserOf(found) == geteuid()) {
      return std::make_unique<Connection>(found, longest);
    }
    close(found);
  }
}

std::vector<std::string> HostAddresses() {
  std::vector<std::string> outside, loopback;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    const bool local = (ntohl(address->sin_addr.s_addr) >> 24) == 127;
    (local ? loopback : outside).emplace_back(text);
  }
  freeifaddrs(list);
  outside.insert(outside.end(), loopback.begin(), loopback.end());
  return outside;
}

void WaitToRead(const std::vector<int>& sockets, int milliseconds) {
  std::vector<pollfd> wait;
  for (int socket : sockets) wait.push_back({socket, POLLIN, 0});
  poll(wait.data(), wait.size(), milliseconds);
}

}  // namespace partita

#include "runtime/comm/tcp/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/support/clock.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr size_t kMostBytes = 1 << 20;  // of one message

absl::Status SocketError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

void SetUp(int socket) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
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
  if (connect(found, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    pollfd wait{found, POLLOUT, 0};
    int error = errno;
    socklen_t size = sizeof error;
    if (error == EINPROGRESS && poll(&wait, 1, milliseconds) == 1) {
      getsockopt(found, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error != 0) {
      close(found);
      return -1;
    }
  }
  return found;
}

}  // namespace

Connection::Connection(int socket) : socket_(socket) { SetUp(socket); }

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
      WaitToRead({socket_}, 50);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Connection::ReceiveOne(double seconds) {
  const int64_t end = SteadyNow() + static_cast<int64_t>(seconds * 1e9);
  uint32_t size = 0;
  RETURN_IF_ERROR(ReceiveExactly(&size, sizeof size, end));
  if (size > kMostBytes) return absl::UnavailableError("the connection carries something else");
  std::string message(size, '\0');
  RETURN_IF_ERROR(ReceiveExactly(message.data(), size, end));
  return message;
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(
    const std::vector<std::string>& addresses, int port, double seconds) {
  const int64_t end = SteadyNow() + static_cast<int64_t>(seconds * 1e9);
  do {
    for (const std::string& address : addresses) {
      const int socket = Connect(address, port, 500);
      if (socket >= 0) return std::make_unique<Connection>(socket);
    }
    usleep(50'000);
  } while (SteadyNow() < end);
  std::string tried;
  for (const std::string& address : addresses) absl::StrAppend(&tried, " ", address);
  return absl::UnavailableError(absl::StrCat("no connection to port ", port, " at any of:", tried));
}

void Connection::Send(const std::string& message) {
  const auto size = static_cast<uint32_t>(message.size());
  out_.append(reinterpret_cast<const char*>(&size), sizeof size);
  out_ += message;
  Flush();
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
  bool ended = broken_;
  for (;;) {
    const ssize_t got = recv(socket_, data, sizeof data, 0);
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
  uint32_t size = 0;
  while (in_.size() >= sizeof size) {
    std::memcpy(&size, in_.data(), sizeof size);
    if (size > kMostBytes) return absl::UnavailableError("the connection carries something else");
    if (in_.size() < sizeof size + size) break;
    messages.push_back(in_.substr(sizeof size, size));
    in_.erase(0, sizeof size + size);
  }
  if (ended && messages.empty()) return absl::UnavailableError("the connection was closed");
  return messages;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open() { return OpenAt(0); }

absl::StatusOr<std::unique_ptr<Listener>> Listener::OpenAt(int port) {
  const int found = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (found < 0) return SocketError("a socket");
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  any.sin_port = htons(static_cast<uint16_t>(port));
  const int on = 1;
  setsockopt(found, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t size = sizeof any;
  if (bind(found, reinterpret_cast<const sockaddr*>(&any), size) != 0 || listen(found, 64) != 0 ||
      getsockname(found, reinterpret_cast<sockaddr*>(&any), &size) != 0) {
    const absl::Status status = SocketError("a socket to listen on");
    close(found);
    return status;
  }
  fcntl(found, F_SETFL, fcntl(found, F_GETFL) | O_NONBLOCK);
  return std::unique_ptr<Listener>(new Listener(found, ntohs(any.sin_port)));
}

Listener::~Listener() { close(socket_); }

std::unique_ptr<Connection> Listener::Accept() {
  const int found = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  return found < 0 ? nullptr : std::make_unique<Connection>(found);
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

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace partita {

// Small messages over a TCP connection or a Unix socket, never waiting: what ranks meet and
// watchdogs talk with. What arrives takes no more memory than the longest message that is allowed,
// and a piece of the next. One thread.
class Connection {
 public:
  static constexpr size_t kMostBytes = 1 << 20;  // longest message that a sender may choose to send

  // Takes the socket over.
  explicit Connection(int socket, size_t longest = kMostBytes);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Connects within a time limit. Unavailable if no process answers.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& address, int port,
                                                          double seconds);
  // Connects to a Listener::OpenUnix of this name. NotFound if no process listens, Unavailable if
  // too many ask at once, PermissionDenied if a process of another user listens.
  static absl::StatusOr<std::unique_ptr<Connection>> OpenUnix(const std::string& name);

  // Sets the longest message allowed from now on, in bytes.
  void Allow(size_t longest) { longest_ = longest; }

  // Keeps what the other side does not take yet; a broken connection is seen by Receive.
  void Send(const std::string& message);
  // Waits until the system has taken what was sent. Unavailable if that takes longer than
  // `seconds`.
  absl::Status Drain(double seconds);
  // The messages that have arrived, at least one if one has. Unavailable once the other side has
  // closed or is gone, and all that it sent was received; or when it sends something else.
  absl::StatusOr<std::vector<std::string>> Receive();
  // Waits for one message, and reads nothing after it. Unavailable if the other side is gone or
  // says nothing for so long. Not together with Receive.
  absl::StatusOr<std::string> ReceiveOne(double seconds);

  int socket() const { return socket_; }
  // Gives the socket away, non-blocking.
  int Release();

 private:
  void Flush();
  absl::Status ReceiveExactly(void* into, size_t bytes, int64_t end);

  int socket_;  // -1: given away
  size_t longest_;
  std::string out_, in_;
  bool broken_ = false;
};

// Listener that accepts connections.
class Listener {
 public:
  // Listens at this TCP port, or at one that the system chooses (0): of all addresses of this host,
  // or of its loopback interface only, where no other host reaches it. Unavailable where it is
  // taken.
  enum class Reach { kAllHosts, kThisHost };
  static absl::StatusOr<std::unique_ptr<Listener>> Open(Reach reach, int port = 0);
  // A Unix socket of that name, which leaves no file; only processes of this user are let in.
  static absl::StatusOr<std::unique_ptr<Listener>> OpenUnix(const std::string& name);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Null if no connection waits at present. Its messages may have `longest` bytes.
  std::unique_ptr<Connection> Accept(size_t longest = Connection::kMostBytes);
  int port() const { return port_; }  // 0: a Unix socket
  int socket() const { return socket_; }

 private:
  Listener(int socket, int port) : socket_(socket), port_(port) {}
  const int socket_, port_;
};

// IPv4 addresses of this host, loopback last.
std::vector<std::string> HostAddresses();

// Waits until one of the sockets has something to read, at most so long.
void WaitToRead(const std::vector<int>& sockets, int milliseconds);

}  // namespace partita

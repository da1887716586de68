#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace partita {

// Small messages over a TCP connection, never waiting: what ranks meet and watchdogs talk with. One
// thread.
class Connection {
 public:
  // Takes the socket over.
  explicit Connection(int socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Tries these addresses ("192.168.0.7") in turn. Unavailable if none answers within `seconds`.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::vector<std::string>& addresses,
                                                          int port, double seconds);

  // Keeps what the other side does not take yet; a broken connection is seen by Receive.
  void Send(const std::string& message);
  // All messages that have arrived. Unavailable once the other side has closed or is gone, and all
  // that it sent was received.
  absl::StatusOr<std::vector<std::string>> Receive();
  int socket() const { return socket_; }
  // Waits for one message, and reads nothing behind it. Unavailable if the other side is gone or
  // says nothing for so long. Not together with Receive.
  absl::StatusOr<std::string> ReceiveOne(double seconds);
  // Gives the socket away, non-blocking.
  int Release();

 private:
  void Flush();
  absl::Status ReceiveExactly(void* into, size_t bytes, int64_t end);

  int socket_;  // -1: given away
  std::string out_, in_;
  bool broken_ = false;
};

// Where connections come in: all addresses of this host, at a port that the system chose.
class Listener {
 public:
  static absl::StatusOr<std::unique_ptr<Listener>> Open();
  ~Listener();
  // At this port of all addresses, or at one that the system chooses (0).
  static absl::StatusOr<std::unique_ptr<Listener>> OpenAt(int port);
  // Null if nobody asks at present.
  std::unique_ptr<Connection> Accept();
  int port() const { return port_; }
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

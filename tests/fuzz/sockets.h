#pragma once

#include <array>
#include <string>

#include "runtime/support/run_key.h"

namespace partita {

// Sockets of this process, for targets that read what ranks send each other.

constexpr size_t kMostInput = 100'000;  // bytes that fit into a socket
constexpr double kNoWait = 0.001;       // seconds

// Both ends of a connection.
std::array<int, 2> ConnectedSockets();
// One end of a connection whose other end has sent the bytes and gone.
int SocketWith(const std::string& bytes);
// What has arrived at a socket.
std::string BytesAt(int socket);

// A peer that has sent the bytes and takes what it is sent; after its bytes it says that it sends no
// more, or is silent.
class Peer {
 public:
  Peer(const std::string& bytes, bool is_silent);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  int socket() const { return socket_; }  // this process's end; whoever takes it closes it

 private:
  int socket_, own_;
};

// The key of the run.
const RunKey& Key();

}  // namespace partita

#include "tests/fuzz/sockets.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "tests/fuzz/fuzz_target.h"

namespace partita {
namespace {

void SendAll(int socket, const std::string& bytes) {
  const size_t size = std::min(bytes.size(), kMostInput);
  Demand(send(socket, bytes.data(), size, MSG_NOSIGNAL) == static_cast<ssize_t>(size), "a socket");
}

}  // namespace

std::array<int, 2> ConnectedSockets() {
  std::array<int, 2> ends{};
  Demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0,
         "sockets");
  return ends;
}

int SocketWith(const std::string& bytes) {
  const auto ends = ConnectedSockets();
  SendAll(ends[1], bytes);
  shutdown(ends[1], SHUT_WR);
  close(ends[1]);
  return ends[0];
}

std::string BytesAt(int socket) {
  std::string bytes(kMostInput, '\0');
  const ssize_t size = recv(socket, bytes.data(), bytes.size(), 0);
  bytes.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return bytes;
}

Peer::Peer(const std::string& bytes, bool is_silent) {
  const auto ends = ConnectedSockets();
  socket_ = ends[0];
  own_ = ends[1];
  SendAll(own_, bytes);
  if (!is_silent) shutdown(own_, SHUT_WR);
}

Peer::~Peer() { close(own_); }

const RunKey& Key() {
  static const RunKey kKey = *RunKey::FromSecret(std::string(64, 'a'));
  return kKey;
}

}  // namespace partita

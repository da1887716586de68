#include "runtime/launch/verdict_line.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/support/status_macros.h"

namespace partita {
namespace {

std::optional<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int OpenSocket() { return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

}  // namespace

absl::StatusOr<std::unique_ptr<VerdictLine>> VerdictLine::Open() {
  ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Create());
  const std::string path = folder.path() + "/verdict";
  std::unique_ptr<VerdictLine> line(new VerdictLine(OpenSocket(), std::move(folder), path));
  const auto address = AddressOf(path);
  if (!address.has_value() || line->socket_ < 0 ||
      bind(line->socket_, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return absl::UnavailableError("no socket can be made at " + path +
                                  "; name a folder with a shorter path in TMPDIR");
  }
  return line;
}

VerdictLine::~VerdictLine() {
  if (socket_ >= 0) close(socket_);
}

std::optional<std::string> VerdictLine::Receive() {
  std::string text(kLongest, '\0');
  const ssize_t length = recv(socket_, text.data(), text.size(), 0);
  if (length < 0) return std::nullopt;
  text.resize(static_cast<size_t>(length));
  return text;
}

bool VerdictLine::Tell(const std::string& path, const std::string& text) {
  const auto address = AddressOf(path);
  const int socket = OpenSocket();
  if (socket < 0) return false;
  const bool told = address.has_value() &&
                    sendto(socket, text.data(), std::min(text.size(), kLongest), MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&*address), sizeof *address) >= 0;
  close(socket);
  return told;
}

}  // namespace partita

#include "runtime/comm/host_circle.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "graph/support/clock.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/tcp/handshake.h"
#include "runtime/comm/tcp/reception.h"
#include "runtime/support/hmac.h"

// Every rank listens at a name of its own, which it tells all; it calls the lower ranks of its
// host, and the higher ones call it. In an exchange each says how many pieces come; then come
// messages of a size and a descriptor.

namespace partita {
namespace {

constexpr size_t kNameBytes = 16;  // random ones of a name

double SecondsUntil(int64_t end) { return static_cast<double>(end - SteadyNow()) / 1e9; }

int64_t EndOf(double seconds) { return SteadyNow() + static_cast<int64_t>(seconds * 1e9); }

absl::Status WaitFor(int socket, short events, int64_t end) {
  for (;;) {
    pollfd wait{socket, events, 0};
    if (poll(&wait, 1, 50) > 0) return absl::OkStatus();
    if (SteadyNow() > end) return absl::UnavailableError("a rank of this host does not answer");
  }
}

// A number, and a descriptor if it is not negative.
absl::Status SendPiece(int socket, int64_t number, int descriptor, int64_t end) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&number, sizeof number};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  for (;;) {
    RETURN_IF_ERROR(WaitFor(socket, POLLOUT, end));
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent == sizeof number) return absl::OkStatus();
    if (sent >= 0 || (errno != EAGAIN && errno != EINTR)) {
      return absl::UnavailableError("a rank of this host is gone");
    }
  }
}

// A number, or a descriptor of shared memory with its size.
struct Handover {
  int64_t number = 0;
  int descriptor = -1;  // -1: none; otherwise the reader's to close
};

// The descriptors of a message; all but one are closed.
int TakeDescriptor(msghdr& message) {
  int taken = -1;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t k = 0; k < count; ++k) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + k * sizeof(int), sizeof(int));
      if (taken >= 0) close(taken);
      taken = descriptor;
    }
  }
  return taken;
}

absl::StatusOr<Handover> ReceiveHandover(int socket, int64_t end) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  Handover piece;
  iovec part{&piece.number, sizeof piece.number};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  for (;;) {
    RETURN_IF_ERROR(WaitFor(socket, POLLIN, end));
    const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    piece.descriptor = got >= 0 ? TakeDescriptor(message) : -1;
    if (got == sizeof piece.number && (message.msg_flags & MSG_CTRUNC) == 0) return piece;
    if (piece.descriptor >= 0) close(piece.descriptor);
    return absl::UnavailableError("a rank of this host is gone, or hands over something else");
  }
}

absl::Status SendAll(int socket, std::span<const SharedMemory* const> own, int64_t end) {
  RETURN_IF_ERROR(SendPiece(socket, static_cast<int64_t>(own.size()), -1, end));
  for (const SharedMemory* one : own) {
    RETURN_IF_ERROR(SendPiece(socket, one->bytes(), one->descriptor(), end));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SharedMemory>> ReceiveAll(int socket, int64_t end) {
  ASSIGN_OR_RETURN(const Handover count, ReceiveHandover(socket, end));
  if (count.descriptor >= 0) close(count.descriptor);
  if (count.number < 0 || count.number > HostCircle::kMost) {
    return absl::UnavailableError(absl::StrCat("a rank of this host hands over ", count.number,
                                               " pieces of memory; wanted at most ",
                                               HostCircle::kMost));
  }
  std::vector<SharedMemory> memory;
  for (int64_t k = 0; k < count.number; ++k) {
    ASSIGN_OR_RETURN(const Handover piece, ReceiveHandover(socket, end));
    ASSIGN_OR_RETURN(SharedMemory one,
                     SharedMemory::FromDescriptor(piece.descriptor, piece.number));
    memory.push_back(std::move(one));
  }
  return memory;
}

// Connections to the others of this host, by local; fewer where some cannot be reached in time.
std::vector<std::unique_ptr<Connection>> Connect(const std::vector<int>& locals, const Call& own,
                                                 std::unique_ptr<Listener> listener,
                                                 const std::vector<std::string>& names,
                                                 const RunKey& key) {
  const int64_t end = EndOf(HostCircle::kSeconds);
  std::vector<std::unique_ptr<Connection>> connections(locals.size());
  std::optional<RunKey> had = key;
  size_t missing = 0;
  for (size_t k = 0; k < locals.size(); ++k) {
    if (locals[k] > own.listener) ++missing;
    if (locals[k] >= own.listener) continue;
    Call call = own;
    call.caller = own.listener;
    call.listener = locals[k];
    auto connection =
        CallWithinHost(names[static_cast<size_t>(locals[k])], had, call, SecondsUntil(end));
    if (!connection.ok()) return {};
    connections[k] = *std::move(connection);
  }
  Reception reception(std::move(listener), key, {.own = own});
  while (missing > 0 && SteadyNow() < end) {
    for (Reception::Guest& guest : reception.Receive(50)) {
      const auto place = std::lower_bound(locals.begin(), locals.end(), guest.rank);
      if (place == locals.end() || *place != guest.rank || guest.rank <= own.listener) continue;
      auto& connection = connections[static_cast<size_t>(place - locals.begin())];
      if (connection == nullptr) --missing;
      connection = std::move(guest.connection);
    }
  }
  if (missing > 0) connections.clear();
  return connections;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostCircle>> HostCircle::Open(MessagePort& port,
                                                             std::vector<int> locals,
                                                             const RunKey& key) {
  std::string name;
  std::unique_ptr<Listener> listener;
  if (locals.size() > 1) {
    name = absl::StrCat("partita-memory-", absl::BytesToHexString(RandomBytes(kNameBytes)));
    if (auto opened = Listener::OpenUnix(name); opened.ok()) {
      listener = *std::move(opened);
    } else {
      name.clear();
    }
  }
  ASSIGN_OR_RETURN(const auto names, GatherTexts(port, name));
  const bool all_listen = std::all_of(locals.begin(), locals.end(), [&](int rank) {
    return !names[static_cast<size_t>(rank)].empty();
  });
  std::vector<std::unique_ptr<Connection>> connections;
  if (all_listen) {
    const Call own{.purpose = Purpose::kMemory, .listener = port.rank(), .ranks = port.size()};
    connections = Connect(locals, own, std::move(listener), names, key);
  }
  ASSIGN_OR_RETURN(const auto who, GatherTexts(port, connections.empty() ? "" : "connected"));
  const bool all = std::all_of(locals.begin(), locals.end(),
                               [&](int rank) { return !who[static_cast<size_t>(rank)].empty(); });
  if (!all) return nullptr;
  return std::unique_ptr<HostCircle>(new HostCircle(std::move(locals), std::move(connections)));
}

absl::StatusOr<HostCircle::MemoryOfPeers> HostCircle::Exchange(
    std::span<const SharedMemory* const> own) {
  const int64_t end = EndOf(kSeconds);
  MemoryOfPeers memory(locals_.size());
  const auto place = static_cast<size_t>(
      std::find(connections_.begin(), connections_.end(), nullptr) - connections_.begin());
  // All ranks go through their pairs in one order, and in each pair the lower one gives first: so
  // none waits for one that waits for it.
  for (size_t k = 0; k < connections_.size(); ++k) {
    if (k == place) continue;
    const int socket = connections_[k]->socket();
    if (place < k) RETURN_IF_ERROR(SendAll(socket, own, end));
    ASSIGN_OR_RETURN(memory[k], ReceiveAll(socket, end));
    if (place > k) RETURN_IF_ERROR(SendAll(socket, own, end));
  }
  return memory;
}

}  // namespace partita

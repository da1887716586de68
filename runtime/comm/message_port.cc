#include "runtime/comm/message_port.h"

namespace partita {

absl::Status Broadcast(MessagePort& port, int root, void* data, int64_t bytes) {
  constexpr int kTag = 32767;
  std::vector<MessagePort::Message> messages;
  if (port.rank() != root) {
    messages.push_back({root, true, data, bytes});
  } else {
    for (int peer = 0; peer < port.size(); ++peer) {
      if (peer != root) messages.push_back({peer, false, data, bytes});
    }
  }
  return port.Exchange(messages, kTag);
}

}  // namespace partita

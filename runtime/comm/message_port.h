#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace partita {

// Messages between the processes of one run: what communicators between processes are made of, and
// how hosts agree. Processes are ranks 0..size-1; device d of a program is rank d's. One exchange
// at a time in a process; Abort from any thread.
class MessagePort {
 public:
  // Bytes that this rank sends to a peer, or gets from it.
  struct Message {
    int peer = 0;
    bool receives = false;
    void* data = nullptr;  // read if it is sent
    int64_t bytes = 0;
  };

  virtual ~MessagePort() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends and receives all of it at once; returns when the memory may be used again. Messages
  // between two ranks arrive in the order in which they were sent; both sides name the same `tag`
  // (0 to 32767) and the same bytes. Ranges that are received do not overlap any other.
  // Cancelled after Abort; Internal where a message has other bytes than its receiver wanted.
  virtual absl::Status Exchange(std::span<const Message> messages, int tag) = 0;

  // Whether an exchange waits for its peers at present. Any thread.
  virtual bool waiting() const = 0;

  // Ends this process's exchanges, the present one and later ones, with this error. What peers wait
  // for never comes: the process should end, and the launcher the others.
  virtual void Abort(const absl::Status& reason) = 0;
};

// Every rank gets the root's bytes. Collective: all ranks call it in the same order.
absl::Status Broadcast(MessagePort& port, int root, void* data, int64_t bytes);

}  // namespace partita

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/message_port.h"
#include "runtime/comm/tcp/connection.h"
#include "runtime/support/run_key.h"
#include "runtime/support/shared_memory.h"

namespace partita {

// The ranks of one host, with a Unix socket between any two: memory that they share is handed over
// as descriptors, never opened by a name that a peer sends. The other end is a process of this user
// (SO_PEERCRED) that has the run's key (handshake.h). One thread.
class HostCircle {
 public:
  // Collective: all ranks of the port call it, each with the ranks of its host, ascending, itself
  // among them. Null, on all ranks of a host, where one of them does not reach the others within
  // kSeconds.
  static absl::StatusOr<std::unique_ptr<HostCircle>> Open(MessagePort& port,
                                                          std::vector<int> locals,
                                                          const RunKey& key);

  // Memory of the peers, indexed by local rank; this rank's own is empty.
  using MemoryOfPeers = std::vector<std::vector<SharedMemory>>;
  // Every rank of the host gives memory, as much as it likes, to all others, and gets theirs. All
  // of them call it. Unavailable where one does not answer within kSeconds, gives more than kMost
  // pieces, or what could become smaller.
  absl::StatusOr<MemoryOfPeers> Exchange(std::span<const SharedMemory* const> own);

  const std::vector<int>& locals() const { return locals_; }

  static constexpr double kSeconds = 20;
  static constexpr int64_t kMost = 4096;

 private:
  HostCircle(std::vector<int> locals, std::vector<std::unique_ptr<Connection>> connections)
      : locals_(std::move(locals)), connections_(std::move(connections)) {}

  const std::vector<int> locals_;
  const std::vector<std::unique_ptr<Connection>> connections_;  // indexed by local; null: its own
};

}  // namespace partita

#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/collective/collective.h"
#include "graph/tensor.h"

namespace partita {

class HostCircle;

// Messages between the processes of one run, on which communicators between processes are built and
// by which hosts agree. Processes are ranks 0..size-1; device d of a program is rank d's. One
// exchange at a time in a process; waiting and Abort from any thread.
class MessagePort {
 public:
  // Reduction of elements that arrive, instead of storing them.
  struct Reduce {
    DType dtype = DType::kFloat32;
    Reduction reduction = Reduction::kSum;
    bool own_first = true;  // the value that is there is the left operand
  };
  // Bytes that this rank sends to a peer, or gets from it.
  struct Message {
    int peer = 0;
    bool receives = false;
    void* data = nullptr;  // elements; read if it is sent
    int64_t bytes = 0;
    std::optional<Reduce> reduce = {};  // reduction if it is received: data = data (+) arrival
  };

  virtual ~MessagePort() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends and receives all of it at once; returns when the memory may be used again. Messages
  // between two ranks arrive in the order in which they were sent; both sides name the same `tag`
  // (0 to 32767) and the same bytes. Ranges that are received do not overlap any other.
  // Cancelled after Abort; Internal where a message has other bytes than its receiver wanted.
  absl::Status Exchange(std::span<const Message> messages, int tag);

  // The parts of Exchange: begins it, then moves it on without waiting until it says that all is
  // done. The messages stay valid until then.
  virtual absl::Status Begin(std::span<const Message> messages, int tag) = 0;
  virtual absl::StatusOr<bool> Advance() = 0;

  // Whether all that is left of the exchange goes over a network: then waiting leaves the cores to
  // others.
  virtual bool AwaitsNetwork() const { return false; }

  // The ranks of this host that share memory, this one among them, ascending.
  virtual std::vector<int> SharingRanks() const { return {rank()}; }

  // Circle through which these ranks share memory; null where they share none. Owned by the port.
  virtual HostCircle* circle() { return nullptr; }

  // Waits for peers, as an exchange does: until `done` gives true or an error. Cancelled after
  // Abort; Unavailable after a longer wait than LimitWaiting allows.
  absl::Status Await(absl::FunctionRef<absl::StatusOr<bool>()> done);

  // Limits every later wait to so many seconds; 0, the default: no limit. For use while no watchdog
  // watches the peers.
  void LimitWaiting(double seconds) { limit_seconds_.store(seconds); }

  // Whether this rank waits for its peers at present.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed); }

  // Ends this process's exchanges, the present one and later ones, with this error. What peers wait
  // for never comes: the process should end, and the launcher the others.
  void Abort(const absl::Status& reason);

 protected:
  // Reason of the end: Cancelled after Abort.
  absl::Status Reason() const;

 private:
  std::atomic<bool> waiting_{false}, aborted_{false};
  std::atomic<double> limit_seconds_{0};
  mutable std::mutex mutex_;
  absl::Status reason_;
};

// Every rank gets the root's bytes. Collective: all ranks call it in the same order.
absl::Status Broadcast(MessagePort& port, int root, void* data, int64_t bytes);

// Texts that ranks send each other are no longer than that unless their reader states another
// limit.
constexpr int64_t kMostTextBytes = 1 << 20;

// Every rank gets the root's text. Collective. Internal, on all ranks, where it has more than
// `most` bytes: no memory is taken for it.
absl::Status BroadcastText(MessagePort& port, int root, std::string& text,
                           int64_t most = kMostTextBytes);

// Every rank's bytes, by rank, of which all have as many. Collective. Each rank exchanges messages
// with as many peers as the logarithm of the ranks (Bruck et al. 1997).
absl::StatusOr<std::vector<std::string>> GatherBytes(MessagePort& port, const std::string& own);

// Every rank's text, by rank. Collective, with twice the messages of GatherBytes. Internal, on all
// ranks, where one has more than `most` bytes.
absl::StatusOr<std::vector<std::string>> GatherTexts(MessagePort& port, const std::string& own,
                                                     int64_t most = kMostTextBytes);

}  // namespace partita

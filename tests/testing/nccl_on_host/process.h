#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/nccl_on_host/clique.h"

namespace partita::nccl_on_host {

// Object that an ncclComm_t stands for.
struct Communicator {
  enum class State : uint8_t { kOpen, kFinalized, kDestroyed, kAborted };
  std::shared_ptr<Clique> clique;
  int rank = 0;
  bool blocking = true;
  bool shares = false;  // with what is split from it
  int64_t family = 0;   // number of those that are aborted together
  State state = State::kOpen;
};

// Ids and handles of the process, which NCCL's functions share. Handles are numbers that are never
// used twice, so that one that is gone is told from one that is not. Thread safe.
class Process {
 public:
  static Process& Get();

  ncclUniqueId NewId();
  // The clique of an id that NewId gave; made for its first rank.
  Failure CliqueOf(const ncclUniqueId& id, int ranks, std::shared_ptr<Clique>& clique);

  // Its family is a new one where it is of none.
  ncclComm_t Add(Communicator communicator);
  // Communicators of a family that are neither aborted nor destroyed.
  std::vector<Communicator> Family(int64_t family) const;
  // Fails for what never was a handle, and for those that are aborted or destroyed.
  Failure Find(ncclComm_t handle, Communicator& communicator) const;
  void SetState(ncclComm_t handle, Communicator::State state);

  // A thread is in a call of these communicators.
  void Enter(const std::vector<ncclComm_t>& handles);
  void Leave(const std::vector<ncclComm_t>& handles);
  bool IsEntered(ncclComm_t handle) const;

  std::atomic<double> limit_seconds{600};
  std::atomic<int64_t> connected{0}, splits{0}, looks{0}, aborted{0}, aborted_inside{0};

 private:
  mutable std::mutex mutex_;
  uint64_t last_id_ = 0;
  uintptr_t last_handle_ = 0x1000;
  std::map<std::string, std::weak_ptr<Clique>> cliques_;  // by id
  std::map<uintptr_t, Communicator> communicators_;       // gone ones without their clique
  std::multiset<uintptr_t> entered_;
};

}  // namespace partita::nccl_on_host

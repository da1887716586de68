#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/nccl_on_host/elements.h"
#include "tests/testing/nccl_on_host/operation.h"

namespace partita::nccl_on_host {

// The ranks that one unique id connects: where their calls meet. The call that completes an
// operation moves its elements, on its own thread. A clique fails once, for all of its ranks: calls
// under way and later ones get that failure.
class Clique {
 public:
  Clique(int ranks, const Elements& elements);

  int ranks() const { return ranks_; }

  // Fails if the rank is there already or another rank expects another number of ranks.
  Failure Join(int rank, int ranks);
  bool connected() const;
  Failure failure() const;
  // Until all ranks have joined.
  Failure AwaitConnection(double limit_seconds);

  // Puts down what one rank calls in one group, checked; the operations that are whole run. A rank
  // has one group at a time. Fails, with what everybody waits in, if ranks would wait for each
  // other for ever.
  Failure Post(int rank, const std::vector<Operation>& operations);
  // Until all that the rank has put down is done; fails with who is missing after the limit.
  Failure Await(int rank, double limit_seconds);

  // The rank makes no more calls. Those who wait for it fail, at once or when they do.
  void Destroy(int rank);
  // Fails everybody.
  void Abort(int rank);
  void Fail(const Failure& failure);

 private:
  struct Open {
    Operation operation;
    int64_t number = -1;  // of a collective: its place among the rank's
  };
  // The n-th collective of every rank.
  struct Meeting {
    std::vector<const Operation*> calls;  // by rank; null: not there yet
    int arrived = 0;
  };

  Failure CheckPost(int rank, const std::vector<Operation>& operations) const;
  Failure PostCollective(int rank, const Operation& operation);
  Failure PostBetweenTwo(int rank, const Operation& operation);
  void Run(const Meeting& meeting) const;
  void Close(int64_t number);
  std::set<int> WaitsFor(int rank) const;
  Failure FindHopeless() const;
  std::string Waiting() const;
  void FailLocked(const Failure& failure);

  const int ranks_;
  const Elements& elements_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Failure failure_;
  std::vector<bool> joined_, destroyed_;
  std::vector<std::list<Open>> open_;  // by rank: not yet done, in order of calls
  std::vector<int64_t> collectives_;   // by rank: called so far
  std::deque<Meeting> meetings_;       // from number first_ on
  int64_t first_ = 0;
};

}  // namespace partita::nccl_on_host

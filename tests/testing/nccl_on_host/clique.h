#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
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
  // The same without a wait: ncclInProgress until then. A failure of the clique, or ncclInProgress
  // also as long as not all are connected or have called what the rank splits.
  Failure State(int rank, double limit_seconds);

  // One rank's call of a split, which is done when all ranks have called it: `take` is called with
  // the rank's part, or with null.
  struct SplitPart {
    int color = 0;  // negative: none
    int key = 0;
    std::function<void(std::shared_ptr<Clique> clique, int rank)> take;
  };
  Failure PostSplit(int rank, SplitPart part);

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
  Failure FailMissing(int rank, double limit_seconds);
  void Split();

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
  std::vector<std::optional<SplitPart>> split_;               // by rank: called and not done
  std::vector<std::chrono::steady_clock::time_point> since_;  // by rank: of its last group
};

}  // namespace partita::nccl_on_host

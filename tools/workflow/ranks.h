#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/comm/message_port.h"
#include "runtime/executor/executor.h"
#include "runtime/launch/run_queue_delay.h"
#include "runtime/launch/watchdog.h"
#include "runtime/support/run_key.h"

namespace partita {

// Compares the hardware of the ranks' devices, given for each rank as (class of its device,
// hardware). InvalidArgument naming the first two ranks of one class whose hardware differs.
absl::Status CompareHardware(std::span<const std::pair<std::string, std::string>> ranks);

// The state that a rank reports of itself. `waits`: for messages of others.
RankState StateOf(const Executor::Progress& progress, bool waits);

// Rank of this process among those that run one plan together: rank r has device r. One thread at a
// time, never while the executor is in a step.
class Ranks {
 public:
  // Null where no launcher has started this process, or only this one: one of MPI's, or one that
  // sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun does. Otherwise all ranks have
  // met, and a watchdog with these options watches them. UsageError where the environment is
  // invalid (ReadRankEnvironment), or the ranks are of several hosts and have no key; Unavailable
  // where they cannot meet. With MPI, rank 0's key is for all, and it makes one where it has none.
  static absl::StatusOr<std::unique_ptr<Ranks>> Join(WatchdogOptions options,
                                                     const std::optional<RunKey>& key);

  int rank() const { return port_->rank(); }
  int size() const { return port_->size(); }
  // True for the one rank that prints and writes files.
  bool is_rank0() const { return rank() == 0; }
  MessagePort& port() { return *port_; }
  // Name of the communicator of the ranks.
  const std::string& communicator() const { return communicator_; }

  // Named values that have to be the same on all ranks. InvalidArgument, the same on all of them,
  // naming the rank whose value differs from rank 0's.
  using Named = std::pair<std::string, std::string>;
  absl::Status CheckSame(const std::vector<Named>& things);

  // Ranks whose devices are of one class have to be on equal hardware, each saying what it is on.
  // InvalidArgument, the same on all ranks, as CompareHardware.
  absl::Status CheckHardware(const std::string& device_class, const std::string& hardware);

  // Returns the value of rank 0.
  absl::StatusOr<bool> FromRank0(bool value);
  // The same of what one rank does for all: so all fail alike, or none does.
  absl::Status FromRank0(const absl::Status& status);

  // The instructions of all ranks in a step of so many tasks; every rank measures time from its own
  // start of the step. Internal if a rank's records are invalid.
  absl::StatusOr<std::vector<MeasuredInstruction>> Gather(
      const std::vector<MeasuredInstruction>& own, int64_t tasks);

  // Reports this executor's progress to the watchdog, until the next call; null: none. How long a step
  // takes whose ranks meet on their devices only the executor judges (ExecutorSetup::hang_seconds).
  void Watch(const Executor* executor);

  // All ranks call one of them at the end. Fail returns the exit code if all ranks have failed with
  // the same; otherwise the process ends in it.
  void Leave() { watchdog_->Leave(); }
  int Fail(int code, const std::string& reason) {
    failed_ = true;
    return watchdog_->Fail(code, reason);
  }
  ~Ranks();

 private:
  Ranks() = default;
  bool failed_ = false;  // the port is not closed
  std::unique_ptr<MessagePort> port_;
  std::string communicator_;
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace partita

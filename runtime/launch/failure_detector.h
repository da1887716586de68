#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace partita {

// State of a rank, as it reports it.
enum class RankState : uint8_t {
  kPreparing,  // outside of training steps: no time limit
  kWorking,    // computing in a step
  kWaiting,    // waiting in a step for messages of other ranks
};

struct RankProgress {
  RankState state = RankState::kPreparing;
  int64_t completed = 0;  // pieces of work so far; never falls
  int64_t starved = 0;    // nanoseconds in which it was ready and had no core; never falls
};

// The exit codes of a run that one rank has ended: a check of what is computed has failed there, or
// anything else.
constexpr int kCheckFailed = 1, kRankFailed = 5;

// Reason for which a run ends.
struct Verdict {
  int rank = 0;            // rank at fault: the first of them
  int code = kRankFailed;  // the exit code of all ranks
  std::string reason;
  bool common = false;  // all ranks have failed in the same way
};

struct FailureDetectorOptions {
  // Silence after which a rank counts as stopped or unreachable.
  double silent_seconds = 3;
  // Time with a core after which a rank that works and completes nothing counts as stuck: so many
  // seconds, or so many times its longest piece of work so far, if that is more.
  double stuck_seconds = 3.5;
  double stuck_factor = 20;
  // Time in which the other ranks may fail in the same way as the first.
  double agreement_seconds = 1;
};

// Failure detector of a run: decides from the reports of its ranks, and their times, whether one
// has failed. Of several failures a failed check comes first, since other ranks may fail because
// its rank sent nothing; then the one reported first. Time is in nanoseconds of any monotonic
// clock; nothing here waits or reads a clock. One thread.
class FailureDetector {
 public:
  FailureDetector(int ranks, FailureDetectorOptions options, int64_t now);

  // Sets the name of a rank in messages, such as "rank 2 (process 17 on host b)".
  void Name(int rank, std::string name) {
    ranks_[static_cast<size_t>(rank)].name = std::move(name);
  }

  void Observe(int rank, RankProgress progress, int64_t now);
  // Notes that the rank has ended its work without failure; its further reports no longer count.
  void Left(int rank) { ranks_[static_cast<size_t>(rank)].left = true; }
  void Failed(int rank, int code, std::string reason, int64_t now);
  // Notes that the rank's connection has ended.
  void Closed(int rank) { ranks_[static_cast<size_t>(rank)].closed = true; }

  bool AllLeft() const;
  // Judges the run; to be called several times a second. After a long interval without a call the
  // process itself was stopped, and counting starts anew.
  std::optional<Verdict> Detect(int64_t now);

 private:
  struct Rank {
    std::string name;
    int64_t heard = 0;
    bool left = false, closed = false, failed = false;
    int code = 0;
    int place = 0;  // position among those that have failed, in the order of reports
    std::string reason;
    RankProgress progress;
    int64_t since = 0;    // time at which it last completed something or was not working
    int64_t longest = 0;  // longest time between two pieces of work
  };

  std::optional<Verdict> JudgeFailures(int64_t now) const;
  std::optional<Verdict> JudgeSigns(size_t rank, int64_t now) const;

  const FailureDetectorOptions options_;
  std::vector<Rank> ranks_;
  int64_t asked_, first_failure_ = -1;
  int failures_ = 0;
};

}  // namespace partita

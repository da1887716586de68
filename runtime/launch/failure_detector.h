#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace partita {

// What a rank is at, as it says itself.
enum class RankDoing : uint8_t {
  kPreparing,  // not in a training step: it may take its time
  kWorking,    // in a step
  kWaiting,    // in a step, for messages of other ranks
};

struct RankProgress {
  RankDoing doing = RankDoing::kPreparing;
  int64_t completed = 0;  // pieces of work so far; ever more
  int64_t starved = 0;    // nanoseconds that it was ready to work and had no core; ever more
};

// The exit codes of a run that one rank has ended: a check of what is computed has failed there, or
// anything else.
constexpr int kCheckFailed = 1, kRankFailed = 5;

// Why a run ends.
struct Verdict {
  int rank = 0;            // whose fault it is: the first of them
  int code = kRankFailed;  // the exit code of all ranks
  std::string reason;
  bool common = false;  // all ranks have failed in the same way
};

struct FailureDetectorOptions {
  double silent_seconds = 3;     // a rank that says nothing for so long is stopped or unreachable
  double stuck_seconds = 3.5;    // as is one that works without completing anything and has had a
                                 // core for so long, or for
  double stuck_factor = 20;      // so many times its longest piece of work so far, if that is more
  double agreement_seconds = 1;  // so long ranks have to fail in the same way as the first
};

// Decides from what the ranks of a run say, and when, whether one has failed. Of several failures a
// failed check comes first, since others may fail for want of what its rank did not send; then the
// one that was heard of first. Time is in nanoseconds of any clock that goes on; nothing here waits
// or reads a clock. One thread.
class FailureDetector {
 public:
  FailureDetector(int ranks, FailureDetectorOptions options, int64_t now);

  // How messages name a rank, such as "rank 2 (process 17 on host b)".
  void Name(int rank, std::string name) {
    ranks_[static_cast<size_t>(rank)].name = std::move(name);
  }

  void Heard(int rank, RankProgress progress, int64_t now);
  // It has ended its work, well; what it does now no longer counts.
  void Left(int rank) { ranks_[static_cast<size_t>(rank)].left = true; }
  void Failed(int rank, int code, std::string reason, int64_t now);
  // Its connection has ended.
  void Closed(int rank) { ranks_[static_cast<size_t>(rank)].closed = true; }

  bool AllLeft() const;
  // To be asked several times a second: where nobody has asked for long, the judge itself was
  // stopped, and starts to count anew.
  std::optional<Verdict> Judge(int64_t now);

 private:
  struct Rank {
    std::string name;
    int64_t heard = 0;
    bool left = false, closed = false, failed = false;
    int code = 0;
    int place = 0;  // among those that have failed, in the order of hearing
    std::string reason;
    RankProgress progress;
    int64_t since = 0;    // when it completed something, or was not working
    int64_t longest = 0;  // between two pieces of work
  };

  std::optional<Verdict> JudgeFailures(int64_t now) const;
  std::optional<Verdict> JudgeSigns(size_t rank, int64_t now) const;

  const FailureDetectorOptions options_;
  std::vector<Rank> ranks_;
  int64_t asked_, first_failure_ = -1;
  int failures_ = 0;
};

}  // namespace partita

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace partita {

// The threads of one CPU device. A device's compute stream is the master of an OpenMP team of its
// own; every kernel of the device runs on that team, with a fixed size, so that results do not
// depend on what else runs.

// Sets up the team, on the stream's thread before any work: sets the team's size, pins master and
// workers to `cores` (none: anywhere) and turns denormal numbers off on each of them.
void SetUpThreadTeam(int threads, const std::vector<int>& cores);

// Scope in which the calling thread's teams have this size: primitives must be created under the
// size that will run them.
class TeamSize {
 public:
  explicit TeamSize(int threads);
  ~TeamSize();
  TeamSize(const TeamSize&) = delete;
  TeamSize& operator=(const TeamSize&) = delete;

 private:
  int before_;
};

int CurrentTeamSize();

// Calls body(begin, end) on equal blocks of [0, n), one for each thread of the calling thread's
// team; on the calling thread only if n is below `grain` times 2.
template <class Body>
void ParallelBlocks(int64_t n, int64_t grain, Body&& body) {
  const int64_t most = std::max<int64_t>(1, n / std::max<int64_t>(1, grain));
  const int64_t blocks = std::min<int64_t>(CurrentTeamSize(), most);
  if (blocks <= 1) {
    body(int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(static_cast<int>(blocks)) schedule(static, 1)
  for (int64_t b = 0; b < blocks; ++b) body(b * n / blocks, (b + 1) * n / blocks);
}

}  // namespace partita

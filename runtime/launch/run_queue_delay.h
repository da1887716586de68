#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace partita {

// Run-queue delay of this process: the time in which it was ready and had no core, since other
// processes had them, which is no sign of a hang. Of its threads the one that waited longest
// counts, from one question to the next. One thread at a time.
class RunQueueDelay {
 public:
  // The sum so far, in nanoseconds; 0 where the system does not report it (Linux's schedstat).
  int64_t Total();

 private:
  std::map<std::string, int64_t> waited_;  // keyed by thread
  int64_t total_ = 0;
};

}  // namespace partita

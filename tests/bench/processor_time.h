#pragma once

#include <time.h>

namespace partita {

// Processor time of this thread in seconds, which other work on the machine changes little.
inline double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace partita

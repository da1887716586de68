#pragma once

#include <cstdint>
#include <vector>

namespace partita {

struct ProfilerOptions {
  int samples = 9;  // samples of each device, after a run that is not counted
  // Slow work varies less: after so many seconds for each work `least_samples` are enough.
  double seconds = 0.25;
  int least_samples = 3;
  // Bytes that a device touches in a step: what lies between two launches of one work.
  int64_t footprint = int64_t{64} << 20;
  // Follows each run by another that finds its operands where the first one left them.
  bool warm = false;
};

// Nanoseconds of each counted run, at least 1.
struct Measurement {
  std::vector<int64_t> samples_ns;      // with all devices of the node busy
  std::vector<int64_t> uncontended_ns;  // with the others idle; empty where that is the same
  // Times of the runs that ProfilerOptions::warm adds, all devices busy. They do not price plans:
  // in a step only what the task before wrote is still in caches, which is what samples_ns has.
  std::vector<int64_t> warm_ns;
  int64_t scratch_bytes = 0;
};

}  // namespace partita

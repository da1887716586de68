#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace partita {

// Processor time of some cores since the host started, in ticks of the kernel's clock.
struct CoreTimes {
  int64_t computed = 0;  // time used by any process, this one included
  int64_t stolen = 0;    // time that the host of this virtual machine gave to others
  int64_t all = 0;       // total of these and idle time

  friend bool operator==(const CoreTimes&, const CoreTimes&) = default;
};
// Times of the cores, from the lines "cpuN ..." of the text of /proc/stat; nullopt if a core has
// none.
std::optional<CoreTimes> CoreTimesIn(absl::string_view proc_stat, std::span<const int> cores);

// Work of other processes during a measurement.
struct Disturbance {
  double seconds = 0;  // duration of the measurement
  // Cores that were busy with other processes, on average, times seconds; and that the host of the
  // virtual machine gave to others.
  double others = 0, stolen = 0;
  std::vector<int> measuring;  // other processes that measured on the same cores; 0: of unknown id

  Disturbance& operator+=(const Disturbance& more);
  friend bool operator==(const Disturbance&, const Disturbance&) = default;
};

// Disturbance between two readings of `cores` cores, while this process computed for `own` seconds
// on them.
Disturbance DisturbanceBetween(const CoreTimes& before, const CoreTimes& after, size_t cores,
                               double own, double ticks_per_second);

// Warnings for people, and what to do about them: a sentence for each kind; none where others took
// less than a quarter of a core.
std::vector<std::string> WarningsOf(const Disturbance& disturbance);

// Announces to other processes of this host that this one measures on some cores, for as long as
// the object lives, and finds those that do so too. It uses names of abstract sockets, one for each
// core, over which nothing is sent: they leave no file, and a process that takes one is named in
// warnings, no more. Processes in other network namespaces are not seen.
class MeasuringClaim {
 public:
  explicit MeasuringClaim(std::span<const int> cores);
  ~MeasuringClaim();
  MeasuringClaim(const MeasuringClaim&) = delete;
  MeasuringClaim& operator=(const MeasuringClaim&) = delete;

  // Processes that were there before, and those that have come since: each process once.
  std::vector<int> Others();

 private:
  void Note(int connection);

  std::vector<int> sockets_, others_;
};

// Watches the cores that this process may run on, from its making on.
class DisturbanceWatch {
 public:
  DisturbanceWatch();
  Disturbance SoFar();

 private:
  std::vector<int> cores_;
  MeasuringClaim claim_;
  std::optional<CoreTimes> begin_;
  double own_ = 0;
};

}  // namespace partita

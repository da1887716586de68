#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cost_model/discovery.h"
#include "cost_model/machine.h"
#include "cost_model/profile.h"

namespace partita {

// One measurement: `bytes` took `nanos`, of which `latencies` times a latency.
struct FitPoint {
  double latencies = 1;
  double bytes = 0;
  double nanos = 0;  // > 0
};

// The line latencies * latency + bytes / bandwidth through the points with the least sum of squared
// relative errors, neither figure negative. nullopt without points, and where all are of one size
// (bytes for each latency) of less than 64 KiB: that tells no bandwidth.
struct FittedLine {
  Line line;
  double spread = 0;  // median relative error
};
std::optional<FittedLine> FitLine(std::span<const FitPoint> points);

// The figures of a device class from what was measured on it. From kernels: the fastest arithmetic,
// the shortest time, and the fastest traffic among those without multiply-adds that move at least 8
// MiB (small ones measure caches). From moves in one run: lines. From single messages: a line. From
// collectives: a rate for each algorithm and number of ranks. Figures that no record determines are
// absent. Products have a rate for each precision.
MeasuredRates RatesFrom(std::span<const ProfileRecord> records);

}  // namespace partita

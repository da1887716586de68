#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/support/strong_int.h"

namespace partita {

// A search problem of the benchmarks.
struct BestKnownCase {
  std::string machine, model;
  int devices = 0;
  int64_t batch = 0;
  friend auto operator<=>(const BestKnownCase&, const BestKnownCase&) = default;
};

// The fastest step that was ever found for a case.
struct BestKnownStep {
  Nanos step;
  // The step of data parallelism under the same prices, whether it fits in memory or not. Where it
  // is another today, prices have changed since, and the step says nothing any more.
  Nanos base;
  std::string found_by;  // "auto, 1000 evaluations, seed 3"
};

// The best known steps of many cases, a file of lines:
//   machine model devices batch step_ns base_ns found by
// Lines that begin with '#' are left out.
class BestKnown {
 public:
  // Nothing is known without a file. InvalidArgument names the line that cannot be read.
  static absl::StatusOr<BestKnown> Read(const std::string& path);

  // The step of the case, or of the same on fewer devices of its machine, which is one for more.
  // Nothing where the case is unknown, or was found under other prices.
  std::optional<Nanos> StepOf(const BestKnownCase& of, Nanos base) const;
  // Keeps what is better, new, or known under other prices only; whether it does.
  bool Add(const BestKnownCase& of, const BestKnownStep& found);

  absl::Status Write(const std::string& path) const;

  const std::map<BestKnownCase, BestKnownStep>& steps() const { return steps_; }

 private:
  std::map<BestKnownCase, BestKnownStep> steps_;
};

}  // namespace partita

#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace partita {

struct SelfTestRequest {
  double seconds = 60;  // no check is begun later than that
  // Stop flag: when it becomes true, the result has the checks until then. Null: never.
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const std::string& check, int done, int wanted)> progress;
};

struct SelfTestCheck {
  enum class Verdict { kPassed, kFailed, kSkipped };  // kSkipped: the time was up, or stopped
  std::string name;
  Verdict verdict = Verdict::kSkipped;
  std::string detail;  // what was compared, or why it failed
};

// Checks of this program on this machine, by execution:
//   kernels       small models of every kind on one device of each backend that works here, against
//                 the reference kernels
//   ring          plans that experts make for these models, on four virtual devices, equal to the
//                 serial model bit for bit in the ring of integers modulo 2^64, and in float
//   save, resume  a training run that is saved halfway and resumed ends bit for bit as one that is
//                 not
// Kinds take turns, so that each is met within the time. Writes to a temporary folder only.
// Unavailable where that cannot be made.
absl::StatusOr<std::vector<SelfTestCheck>> RunSelfTest(const SelfTestRequest& request);

}  // namespace partita

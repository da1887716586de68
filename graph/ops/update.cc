#include "graph/ops/update.h"

#include "absl/strings/str_cat.h"

namespace partita {

std::vector<InPlacePair> InPlace(const Sgd&, Pass) { return {{0, 0}, {2, 1}}; }

std::vector<InPlacePair> InPlace(const Adam&, Pass) { return {{0, 0}, {2, 1}, {3, 2}}; }

std::vector<InPlacePair> InPlace(const RunningMean&, Pass) { return {{0, 0}}; }

std::vector<InPlacePair> InPlace(const RunningVariance&, Pass) { return {{0, 0}}; }

absl::Status RunningFields::Check() const {
  if (count < 1 || !(momentum >= 0 && momentum <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("running statistics over ", count,
                                                   " elements with momentum ", momentum,
                                                   "; wanted at least 1 and a number in [0, 1]"));
  }
  return absl::OkStatus();
}

}  // namespace partita

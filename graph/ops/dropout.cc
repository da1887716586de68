#include "graph/ops/dropout.h"

#include "absl/strings/str_cat.h"

namespace partita {

absl::Status Dropout::Check() const {
  if (ratio >= 0 && ratio < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dropout ratio ", ratio, " should be at least 0 and below 1"));
}

std::vector<InPlacePair> InPlace(const Dropout&, Pass) { return {{0, 0}}; }

}  // namespace partita

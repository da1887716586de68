#include "graph/support/faults.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace partita {
namespace {

// Payload of a status: all texts.
constexpr char kFaultsKey[] = "partita/faults";
constexpr char kBetweenFaults[] = "\x1e";

}  // namespace

void Faults::Add(const absl::Status& status) {
  if (status.ok()) return;
  const auto several = status.GetPayload(kFaultsKey);
  if (!several.has_value()) return Add(std::string(status.message()));
  const std::string all(*several);
  for (absl::string_view text : absl::StrSplit(all, kBetweenFaults)) Add(std::string(text));
}

absl::Status Faults::ToStatus() const {
  if (texts_.empty()) return absl::OkStatus();
  if (texts_.size() == 1) return absl::InvalidArgumentError(texts_[0]);
  std::string named = absl::StrCat(texts_.size(), " faults:");
  for (size_t k = 0; k < std::min(texts_.size(), kMostNamed); ++k) {
    absl::StrAppend(&named, "\n  ", texts_[k]);
  }
  if (texts_.size() > kMostNamed) {
    absl::StrAppend(&named, "\n  and ", texts_.size() - kMostNamed, " more");
  }
  absl::Status status = absl::InvalidArgumentError(named);
  status.SetPayload(kFaultsKey,
                    absl::Cord(absl::string_view(absl::StrJoin(texts_, kBetweenFaults))));
  return status;
}

}  // namespace partita

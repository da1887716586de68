#include "graph/support/usage_error.h"

#include "absl/strings/cord.h"

namespace partita {
namespace {

constexpr char kPayload[] = "partita/usage";

}  // namespace

absl::Status UsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kPayload, absl::Cord());
  return status;
}

bool IsUsageError(const absl::Status& status) { return status.GetPayload(kPayload).has_value(); }

}  // namespace partita

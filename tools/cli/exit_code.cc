#include "tools/cli/exit_code.h"

#include "graph/support/usage_error.h"

namespace partita {

int ExitCodeOf(const absl::Status& status) {
  if (IsUsageError(status)) return 2;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kResourceExhausted:
      return 4;
    case absl::StatusCode::kFailedPrecondition:
      return 7;
    case absl::StatusCode::kCancelled:
      return 130;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return 5;
    case absl::StatusCode::kOutOfRange:  // NaN in training
      return 1;
    default:
      return 3;
  }
}

}  // namespace partita

#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "runtime/comm/message_port.h"
#include "runtime/support/run_key.h"

namespace partita {

// Rank 0's key for all, or a new one where it has none: through a port that only ranks can read, as
// MPI's. Collective.
absl::StatusOr<RunKey> KeyFromRank0(MessagePort& port, const std::optional<RunKey>& own);

}  // namespace partita

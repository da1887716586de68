#include "runtime/comm/shared_key.h"

#include <string>

#include "graph/support/status_macros.h"
#include "runtime/support/hmac.h"

namespace partita {

absl::StatusOr<RunKey> KeyFromRank0(MessagePort& port, const std::optional<RunKey>& own) {
  std::string bytes;
  if (port.rank() == 0) bytes = own.has_value() ? own->bytes() : RunKey::New().bytes();
  RETURN_IF_ERROR(BroadcastText(port, 0, bytes, RunKey::kBytes));
  auto key = RunKey::FromBytes(bytes);
  Wipe(bytes);
  return key;
}

}  // namespace partita

#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/backend/backend.h"

namespace partita {

// Records what `enqueue` gives to a stream of the backend, so that it can be run again as the work
// of a replayed step is. Null: the backend records nothing.
absl::StatusOr<std::unique_ptr<StreamRecording>> RecordWork(const Backend& backend, Stream& stream,
                                                            const std::function<void()>& enqueue);

}  // namespace partita

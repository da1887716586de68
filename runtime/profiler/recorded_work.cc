#include "runtime/profiler/recorded_work.h"

#include "graph/support/exceptions.h"
#include "graph/support/status_macros.h"

namespace partita {

absl::StatusOr<std::unique_ptr<StreamRecording>> RecordWork(const Backend& backend, Stream& stream,
                                                            const std::function<void()>& enqueue) {
  Stream* const only = &stream;
  auto recording = backend.NewRecording({&only, 1});
  if (recording == nullptr) return recording;
  RETURN_IF_ERROR(recording->Begin());
  absl::Status status = Catching(enqueue);
  status.Update(recording->End());
  RETURN_IF_ERROR(status);
  return recording;
}

}  // namespace partita

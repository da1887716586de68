#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/backend/backend.h"
#include "runtime/executor/executor.h"
#include "runtime/lowering/program.h"

namespace partita {

// Bytes in front of an input's rows in the host's memory of the whole batch.
int64_t RowOffset(const Graph& graph, TensorId input);

// Double buffering of what a device's load tasks take: two places in its memory, filled in turns on
// a stream of their own while the step before computes. For devices whose memory is not the host's.
class BatchStage {
 public:
  // Null where the device loads nothing. What the arguments refer to outlives it.
  static absl::StatusOr<std::unique_ptr<BatchStage>> Create(const Program& program,
                                                            const Graph& graph, DeviceId id,
                                                            BackendDevice& device);

  // Enqueues the copies of the next step's batch. Its memory stays as it is until Synchronize.
  void Begin(const HostTensor& input, const HostTensor& labels);
  // Looks up the batch at the start of a step: true if it is one of the last two that were begun,
  // and not taken by a step yet.
  bool Find(const HostTensor& input, const HostTensor& labels);
  // Makes `stream` wait for the batch that was found, before and outside of its loads, so that a
  // recorded step does not contain the wait.
  void Join(Stream& stream);
  // Address of the batch that was found.
  const void* found() const { return found_->memory; }
  // Enqueues a load of the step's batch from the stage to `to`, on the stream that has joined.
  void Load(const LoadTask& task, void* to, Stream& stream, WorkTiming* timing);
  // Ends the use of the batch; to be called after the last load of the step on `stream`.
  void End(Stream& stream);

  absl::Status Synchronize() { return stream_->Synchronize(); }
  int64_t completed() const { return stream_->completed(); }

 private:
  // Box of a tensor that a load task copies.
  struct Window {
    bool labels = false;
    int64_t rows = 0;  // RowOffset of the tensor
    DType dtype = DType::kFloat32;
    Box full, box;
    int64_t offset = 0;          // offset in a place
    Stream::MoveArguments load;  // arguments of the current step
  };
  struct Place {
    char* memory = nullptr;
    std::unique_ptr<Event> loaded, used;
    int64_t round = 0;       // round of the batch in it; 0: none
    int64_t used_round = 0;  // round of the last batch that a step has taken from it
    const void *input = nullptr, *labels = nullptr;  // the batch; null: taken
  };

  BatchStage() = default;

  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Stream> stream_;
  absl::flat_hash_map<BufferId, Window> windows_;
  std::array<Place, 2> places_;
  int64_t rounds_ = 0;      // batches begun
  Place* found_ = nullptr;  // place of the current step's batch
};

}  // namespace partita

#include "runtime/executor/batch_stage.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "graph/support/aligned.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"

namespace partita {

int64_t RowOffset(const Graph& graph, TensorId input) {
  const TensorType& type = graph.tensor(input).type;
  if (type.shape.empty() || type.shape[0] == 0) return 0;
  return graph.FirstRowOf(input) * (type.bytes() / type.shape[0]);
}

absl::StatusOr<std::unique_ptr<BatchStage>> BatchStage::Create(const Program& program,
                                                               const Graph& graph, DeviceId id,
                                                               BackendDevice& device) {
  std::unique_ptr<BatchStage> stage(new BatchStage);
  int64_t bytes = 0;
  for (const Instruction& instruction : program.devices[id.index()].compute) {
    const auto* load = std::get_if<LoadTask>(&program.tasks.task(instruction.task).body);
    if (load == nullptr) continue;
    const Buffer& buffer = program.tasks.buffer(load->buffer);
    const Tensor& tensor = graph.tensor(buffer.tensor);
    if (tensor.kind == TensorKind::kSeed) continue;
    stage->windows_[load->buffer] = {.labels = tensor.kind == TensorKind::kLabels,
                                     .rows = RowOffset(graph, tensor.id),
                                     .dtype = tensor.type.dtype,
                                     .full = Box::Full(tensor.type.shape),
                                     .box = buffer.box,
                                     .offset = bytes};
    bytes += Aligned(buffer.elements() * SizeOf(buffer.dtype));
  }
  if (stage->windows_.empty()) return nullptr;
  ASSIGN_OR_RETURN(stage->memory_, device.Allocate(2 * bytes));
  ASSIGN_OR_RETURN(stage->stream_, device.NewStream(absl::StrCat("device ", id.value(), " batches"),
                                                    StreamUse::kCommunication));
  for (size_t k = 0; k < 2; ++k) {
    Place& place = stage->places_[k];
    place.memory = static_cast<char*>(stage->memory_->data()) + static_cast<int64_t>(k) * bytes;
    place.loaded = device.NewEvent();
    place.used = device.NewEvent();
  }
  return stage;
}

void BatchStage::Begin(const HostTensor& input, const HostTensor& labels) {
  Place& place = places_[static_cast<size_t>(++rounds_ % 2)];
  if (place.used_round > 0) stream_->Wait(*place.used, place.used_round);
  place.round = rounds_;
  place.input = input.bytes.data();
  place.labels = labels.bytes.data();
  for (const auto& [buffer, window] : windows_) {
    stream_->CopyFromHost({MoveSignature::Kind::kCopy, window.dtype,
                           (window.labels ? labels : input).bytes.data() + window.rows,
                           place.memory + window.offset, window.full, window.box, window.box},
                          nullptr);
  }
  stream_->Record(*place.loaded, place.round);
}

bool BatchStage::Find(const HostTensor& input, const HostTensor& labels) {
  found_ = nullptr;
  for (Place& place : places_) {
    if (place.input == nullptr || place.input != input.bytes.data() ||
        place.labels != labels.bytes.data()) {
      continue;
    }
    if (found_ == nullptr || place.round < found_->round) found_ = &place;
  }
  if (found_ != nullptr) found_->input = found_->labels = nullptr;
  return found_ != nullptr;
}

void BatchStage::Join(Stream& stream) { stream.Wait(*found_->loaded, found_->round); }

void BatchStage::Load(const LoadTask& task, void* to, Stream& stream, WorkTiming* timing) {
  CHECK(found_ != nullptr) << "a batch that was not begun";
  Window& window = windows_.at(task.buffer);
  window.load = {MoveSignature::Kind::kCopy,
                 window.dtype,
                 found_->memory + window.offset,
                 to,
                 window.box,
                 window.box,
                 window.box};
  stream.RunMoves(std::span(&window.load, 1), timing);
}

void BatchStage::End(Stream& stream) {
  if (found_ == nullptr) return;
  stream.Record(*found_->used, found_->round);
  found_->used_round = found_->round;
  found_ = nullptr;
}

}  // namespace partita

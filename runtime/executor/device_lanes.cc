#include "runtime/executor/device_lanes.h"

#include <algorithm>
#include <new>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// A 1 of each type: what gradients start from.
struct Ones {
  float float32 = 1;
  double float64 = 1;
  int32_t int32 = 1;
  uint64_t ring64 = 1;

  const void* Of(DType dtype) const {
    switch (dtype) {
      case DType::kFloat32:
        return &float32;
      case DType::kFloat64:
        return &float64;
      case DType::kInt32:
        return &int32;
      case DType::kRing64:
        return &ring64;
    }
    return nullptr;
  }
};

constexpr Ones kOnes;

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceLanes>> DeviceLanes::Create(const Program& program,
                                                                 const Graph& graph,
                                                                 DeviceWithKernels device,
                                                                 const ExecutorOptions& options) {
  std::unique_ptr<DeviceLanes> lanes(
      new DeviceLanes(program, graph, device.id, *device.device, options));
  lanes->kernels_ = std::move(device.kernels);
  RETURN_IF_ERROR(lanes->Allocate());
  const DeviceProgram& own = program.devices[device.id.index()];
  lanes->Fill(own.communication, *lanes->communication_);
  lanes->Fill(own.compute, *lanes->compute_);
  lanes->PutInOrder();
  return lanes;
}

absl::Status DeviceLanes::Allocate() {
  const BufferAssignment& memory = program_.memory;
  ASSIGN_OR_RETURN(arena_, device_.Allocate(memory.arena[id_.index()].value()));
  ASSIGN_OR_RETURN(scratch_, device_.Allocate(memory.scratch[id_.index()].value()));
  ASSIGN_OR_RETURN(compute_, device_.NewStream(absl::StrCat("device ", id_.value(), " compute"),
                                               StreamUse::kCompute));
  ASSIGN_OR_RETURN(communication_,
                   device_.NewStream(absl::StrCat("device ", id_.value(), " communication"),
                                     StreamUse::kCommunication));
  if (device_.HostAddressable()) return absl::OkStatus();
  ASSIGN_OR_RETURN(ones_, device_.AllocateHost(sizeof(Ones)));
  new (ones_->data()) Ones;
  ASSIGN_OR_RETURN(stage_, BatchStage::Create(program_, graph_, id_, device_));
  return absl::OkStatus();
}

void* DeviceLanes::AddressOf(BufferId id) const {
  if (id == kNoBuffer || program_.memory.offset[id.index()] < 0) return nullptr;
  return static_cast<char*>(arena_->data()) + program_.memory.offset[id.index()];
}

void DeviceLanes::Fill(const std::vector<Instruction>& lane, Stream& stream) {
  for (const Instruction& instruction : lane) {
    auto ready = std::make_unique<Ready>();
    ready->stream = &stream;
    const Task& task = program_.tasks.task(instruction.task);
    ready->instruction = &instruction;
    ready->task = &task;
    if (instruction.signals) {
      events_.push_back(device_.NewEvent());
      ready->event = events_.back().get();
      event_of_[task.id] = ready->event;
    }
    if (const auto* compute = std::get_if<ComputeTask>(&task.body)) {
      FillCompute(*compute, *ready);
    } else if (const auto* move = std::get_if<MoveTask>(&task.body)) {
      FillMoves(*move, *ready);
    } else if (const auto* load = std::get_if<LoadTask>(&task.body)) {
      const Tensor& tensor = graph_.tensor(program_.tasks.buffer(load->buffer).tensor);
      loads_batches_ |= tensor.kind != TensorKind::kSeed;
    } else if (IsCommunication(task)) {
      FillCommunication(task, *ready);
    }
    ready_.push_back(std::move(ready));
  }
}

void DeviceLanes::PutInOrder() {
  std::vector<size_t> place(program_.tasks.tasks().size());
  for (size_t k = 0; k < program_.order.size(); ++k) place[program_.order[k].index()] = k;
  for (auto& ready : ready_) ready->place = place[ready->task->id.index()];
  std::stable_sort(ready_.begin(), ready_.end(),
                   [](const auto& a, const auto& b) { return a->place < b->place; });
  for (auto& ready : ready_) {
    for (TaskId wait : ready->instruction->waits) ready->waits.push_back(event_of_.at(wait));
  }
}

TensorArgument DeviceLanes::Argument(BufferId buffer, const Box& box, TensorId tensor) const {
  return {AddressOf(buffer), box, graph_.tensor(tensor).type.shape};
}

void DeviceLanes::FillCompute(const ComputeTask& task, Ready& ready) {
  const Operator& op = graph_.op(task.op);
  ready.kernel = kernels_[static_cast<size_t>(task.signature)].get();
  const KernelTensors tensors = TensorsOf(task);
  for (size_t k = 0; k < task.inputs.size(); ++k) {
    ready.inputs.push_back(Argument(task.inputs[k], task.input_boxes[k], tensors.inputs[k]));
  }
  for (size_t k = 0; k < task.outputs.size(); ++k) {
    ready.outputs.push_back(Argument(task.outputs[k], task.output_boxes[k], tensors.outputs[k]));
  }
  ready.arguments.inputs = ready.inputs;
  ready.arguments.outputs = ready.outputs;
  // A gradient draws the same random numbers as its forward operator.
  ready.arguments.operator_key = FingerprintOf(graph_.op(op.forward).name);
}

void DeviceLanes::FillMoves(const MoveTask& task, Ready& ready) {
  auto address = [&](const BufferWindow& window, DType dtype) -> void* {
    if (window.buffer == kNoBuffer) return nullptr;
    return static_cast<char*>(AddressOf(window.buffer)) + window.offset * SizeOf(dtype);
  };
  for (const Move& move : task.moves) {
    Stream::MoveArguments arguments{move.kind,
                                    task.dtype,
                                    address(move.from, task.from),
                                    address(move.to, task.dtype),
                                    move.from.box,
                                    move.to.box,
                                    move.region};
    arguments.from_dtype = task.from;
    if (move.kind == MoveSignature::Kind::kReorder) {
      arguments.from_format = program_.tasks.buffer(move.from.buffer).format;
      arguments.to_format = program_.tasks.buffer(move.to.buffer).format;
    }
    ready.moves.push_back(std::move(arguments));
  }
}

void DeviceLanes::FillCommunication(const Task& task, Ready& ready) {
  CommunicationArguments& args = ready.communication;
  args.task = &task;
  args.device = id_;
  auto address = [this](const Slice& slice, DType dtype) -> void* {
    char* base = static_cast<char*>(AddressOf(slice.buffer));
    return base == nullptr ? nullptr : base + slice.offset * SizeOf(dtype);
  };
  if (const auto* collective = std::get_if<CollectiveTask>(&task.body)) {
    for (size_t r = 0; r < collective->group.size(); ++r) {
      if (collective->group[r] != id_) continue;
      for (size_t k = 0; k < collective->slices(); ++k) {
        args.send.push_back(address(collective->sent(r, k), collective->dtype));
        args.receive.push_back(address(collective->received(r, k), collective->dtype));
      }
    }
    return;
  }
  const auto& transfers = std::get<TransferTask>(task.body);
  for (const Transfer& transfer : transfers.transfers) {
    if (transfer.from != id_ && transfer.to != id_) continue;
    args.send.push_back(transfer.from == id_ ? address(transfer.send, transfers.dtype) : nullptr);
    args.receive.push_back(transfer.to == id_ ? address(transfer.receive, transfers.dtype)
                                              : nullptr);
  }
}

void DeviceLanes::Enqueue(size_t instruction, const StepFeed& feed, Communicator& communicator) {
  Ready& ready = *ready_[instruction];
  Stream& stream = *ready.stream;
  for (Event* event : ready.waits) stream.Wait(*event, feed.round);
  WorkTiming* timing = options_.record_timeline ? &ready.timing : nullptr;
  if (ready.kernel != nullptr) {
    ready.arguments.step = feed.arguments;
    if (feed.not_finite != nullptr) CheckInputs(ready, *feed.not_finite);
    stream.Launch(*ready.kernel, ready.arguments, scratch_->data(), timing);
    if (feed.not_finite != nullptr) CheckOutputs(ready, *feed.not_finite);
  } else if (!ready.moves.empty()) {
    stream.RunMoves(ready.moves, timing);
  } else if (const auto* load = std::get_if<LoadTask>(&ready.task->body)) {
    EnqueueLoad(*load, ready, feed);
  } else if (IsCommunication(*ready.task)) {
    communicator.Enqueue(ready.communication, feed.round, stream, timing);
  }
}

void DeviceLanes::Signal(size_t instruction, int64_t round) {
  Ready& ready = *ready_[instruction];
  if (ready.event != nullptr) ready.stream->Record(*ready.event, round);
}

bool DeviceLanes::BeginStep(const StepFeed& feed) {
  staged_ = stage_ != nullptr && stage_->Find(feed.input, feed.labels);
  if (staged_) stage_->Join(*compute_);
  return stage_ == nullptr || staged_;
}

BatchAddress DeviceLanes::BatchOf(const StepFeed& feed) const {
  if (!loads_batches_) return {};
  if (staged_) return {stage_->found(), nullptr};
  return {feed.input.bytes.data(), feed.labels.bytes.data()};
}

void DeviceLanes::EndStep() {
  if (staged_) stage_->End(*compute_);
  staged_ = false;
}

void DeviceLanes::EnqueueLoad(const LoadTask& task, Ready& ready, const StepFeed& feed) {
  const Buffer& buffer = program_.tasks.buffer(task.buffer);
  const Tensor& tensor = graph_.tensor(buffer.tensor);
  WorkTiming* timing = options_.record_timeline ? &ready.timing : nullptr;
  if (staged_ && tensor.kind != TensorKind::kSeed) {
    return stage_->Load(task, AddressOf(task.buffer), *ready.stream, timing);
  }
  const void* from = nullptr;
  if (tensor.kind == TensorKind::kSeed) {
    const auto& ones = ones_ == nullptr ? kOnes : *static_cast<const Ones*>(ones_->data());
    from = ones.Of(tensor.type.dtype);
  } else {
    const bool labels = tensor.kind == TensorKind::kLabels;
    from = (labels ? feed.labels : feed.input).bytes.data() + RowOffset(graph_, tensor.id);
  }
  ready.stream->CopyFromHost(
      {MoveSignature::Kind::kCopy, tensor.type.dtype, from, AddressOf(task.buffer),
       Box::Full(tensor.type.shape), buffer.box, buffer.box},
      timing);
}

KernelTensors DeviceLanes::TensorsOf(const ComputeTask& task) const {
  const auto signature = static_cast<size_t>(task.signature);
  return partita::TensorsOf(graph_, task, program_.tasks.signatures()[signature]);
}

std::string DeviceLanes::NameOf(const ComputeTask& task) const {
  return absl::StrCat("operator '", graph_.op(task.op).name, "' part ", task.part, " on device ",
                      id_.value());
}

// What was loaded, and what came from other tasks than kernels: sums of several devices.
void DeviceLanes::CheckInputs(const Ready& ready, NotFinite& found) {
  const auto& task = std::get<ComputeTask>(ready.task->body);
  const KernelTensors tensors = TensorsOf(task);
  for (size_t k = 0; k < task.inputs.size(); ++k) {
    if (task.inputs[k] == kNoBuffer) continue;
    CheckFinite(program_.tasks.buffer(task.inputs[k]), static_cast<int64_t>(2 * ready.place),
                absl::StrCat("tensor '", graph_.tensor(tensors.inputs[k]).name, "', as ",
                             NameOf(task), " reads it, holds NaN or infinity"),
                found);
  }
}

void DeviceLanes::CheckOutputs(const Ready& ready, NotFinite& found) {
  const auto& task = std::get<ComputeTask>(ready.task->body);
  const KernelTensors tensors = TensorsOf(task);
  for (size_t k = 0; k < task.outputs.size(); ++k) {
    if (task.outputs[k] == kNoBuffer) continue;
    CheckFinite(program_.tasks.buffer(task.outputs[k]), static_cast<int64_t>(2 * ready.place + 1),
                absl::StrCat(NameOf(task), " produced NaN or infinity, in tensor '",
                             graph_.tensor(tensors.outputs[k]).name, "'"),
                found);
  }
}

void DeviceLanes::CheckFinite(const Buffer& buffer, int64_t place, std::string what,
                              NotFinite& found) {
  const int64_t count = program_.memory.bytes[buffer.id.index()] / SizeOf(buffer.dtype);
  compute_->CheckFinite(buffer.dtype, AddressOf(buffer.id), count,
                        [&found, place, what = std::move(what)] {
                          found.Add(place, what);
                          return absl::OkStatus();
                        });
}

void DeviceLanes::CopyFromHost(const Buffer& to, const Box& box, const void* from) {
  compute_->CopyFromHost(
      {MoveSignature::Kind::kCopy, to.dtype, from, AddressOf(to.id), box, to.box, to.box}, nullptr);
}

void DeviceLanes::CopyToHost(const Buffer& from, void* to) {
  compute_->CopyToHost({MoveSignature::Kind::kCopy, from.dtype, AddressOf(from.id), to, from.box,
                        from.box, from.box},
                       nullptr);
}

absl::Status DeviceLanes::Synchronize() {
  const absl::Status compute = compute_->Synchronize();
  absl::Status others = communication_->Synchronize();
  if (stage_ != nullptr) others.Update(stage_->Synchronize());
  return compute.ok() ? others : compute;
}

std::string DeviceLanes::Describe() const {
  return absl::StrCat("  ", compute_->Describe(), "\n  ", communication_->Describe(), "\n");
}

void DeviceLanes::AppendTimeline(int64_t step_start_ns,
                                 std::vector<MeasuredInstruction>& timeline) const {
  for (const auto& ready : ready_) {
    timeline.push_back({ready->task->id, id_, ready->stream == communication_.get(),
                        ready->timing.start_ns - step_start_ns,
                        ready->timing.end_ns - step_start_ns});
  }
}

}  // namespace partita

#include "tests/testing/task_interpreter.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/collective/algorithms.h"
#include "graph/collective/run_schedule.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/reference/kernels.h"

namespace partita {
namespace {

// An element of kRing64: sums wrap, comparisons are signed.
struct RingElement {
  uint64_t bits = 0;
  friend RingElement operator+(RingElement a, RingElement b) { return {a.bits + b.bits}; }
  friend bool operator<(RingElement a, RingElement b) {
    return static_cast<int64_t>(a.bits) < static_cast<int64_t>(b.bits);
  }
};

template <class Visit>
auto WithElementType(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat64:
      return visit(double{});
    case DType::kInt32:
      return visit(int32_t{});
    case DType::kRing64:
      break;
  }
  return visit(RingElement{});
}

// Calls visit(global index of the element, offset within a row-major buffer over `outer`).
template <class Visit>
void ForEachElement(const Box& region, Visit&& visit) {
  if (region.empty()) return;
  std::vector<int64_t> at;
  for (int d = 0; d < region.rank(); ++d) at.push_back(region[d].lo);
  while (true) {
    visit(at);
    int d = region.rank() - 1;
    for (; d >= 0; --d) {
      if (++at[static_cast<size_t>(d)] < region[d].hi) break;
      at[static_cast<size_t>(d)] = region[d].lo;
    }
    if (d < 0) return;
  }
}

int64_t OffsetIn(const Box& outer, std::span<const int64_t> at) {
  int64_t offset = 0;
  for (int d = 0; d < outer.rank(); ++d) {
    offset = offset * outer[d].size() + (at[static_cast<size_t>(d)] - outer[d].lo);
  }
  return offset;
}

std::string NameOfTask(const Graph* graph, const Task& task) {
  std::string subject = absl::StrCat(task.key.subject);
  if (graph != nullptr) {
    const auto i = static_cast<size_t>(task.key.subject);
    subject = task.key.of_tensor ? graph->tensors()[i].name : graph->ops()[i].name;
  }
  return absl::StrCat("task ", task.id.value(), " of '", subject, "' (phase ",
                      static_cast<int>(task.key.phase), ", step ", task.key.step, ")");
}

}  // namespace

TaskInterpreter::TaskInterpreter(const Graph* graph, const TaskGraph& tasks)
    : graph_(graph), tasks_(tasks) {
  for (const Buffer& buffer : tasks_.buffers()) {
    storage_.emplace_back(static_cast<size_t>(buffer.elements() * SizeOf(buffer.dtype)));
  }
}

void TaskInterpreter::SetPersistent(TensorId id, const DenseTensor& value) {
  for (const Buffer& buffer : tasks_.buffers()) {
    if (buffer.tensor == id && buffer.persistent()) {
      storage_[buffer.id.index()] = SliceOf(value, buffer.box).bytes;
    }
  }
}

absl::StatusOr<DenseTensor> TaskInterpreter::Persistent(TensorId id) const {
  const Tensor& tensor = graph_->tensor(id);
  DenseTensor whole(tensor.type);
  const auto size = static_cast<size_t>(SizeOf(tensor.type.dtype));
  std::vector<int32_t> held_by(static_cast<size_t>(Volume(tensor.type.shape)), -1);
  absl::Status status;
  for (const Buffer& buffer : tasks_.buffers()) {
    if (buffer.tensor != id || !buffer.persistent()) continue;
    const std::byte* piece = storage_[buffer.id.index()].data();
    ForEachElement(buffer.box, [&](std::span<const int64_t> at) {
      const auto to = static_cast<size_t>(OffsetIn(Box::Full(tensor.type.shape), at));
      const std::byte* from = piece + static_cast<size_t>(OffsetIn(buffer.box, at)) * size;
      if (held_by[to] >= 0 && std::memcmp(&whole.bytes[to * size], from, size) != 0) {
        status = absl::DataLossError(absl::StrCat("copies of '", tensor.name,
                                                  "' differ at element ", to, " on devices ",
                                                  held_by[to], " and ", buffer.device.value()));
      }
      held_by[to] = buffer.device.value();
      std::memcpy(&whole.bytes[to * size], from, size);
    });
  }
  RETURN_IF_ERROR(status);
  if (std::find(held_by.begin(), held_by.end(), -1) != held_by.end()) {
    return absl::DataLossError(absl::StrCat("part of '", tensor.name, "' is held nowhere"));
  }
  return whole;
}

absl::StatusOr<DenseTensor> TaskInterpreter::Output(TensorId id) const {
  for (const HostOutput& output : tasks_.outputs()) {
    if (output.tensor != id) continue;
    const Buffer& buffer = tasks_.buffer(output.buffer);
    DenseTensor value({buffer.dtype, buffer.shape()});
    value.bytes = storage_[buffer.id.index()];
    return value;
  }
  return absl::NotFoundError(absl::StrCat("tensor ", id.value(), " is no host output"));
}

absl::Status TaskInterpreter::RunStep(const StepArguments& arguments) {
  std::vector<TaskId> order;
  for (const Task& task : tasks_.tasks()) order.push_back(task.id);
  return RunStep(arguments, order);
}

absl::Status TaskInterpreter::RunStep(const StepArguments& arguments,
                                      std::span<const TaskId> order) {
  CHECK_EQ(order.size(), tasks_.tasks().size());
  Spoil(arguments.step);
  for (TaskId id : order) {
    const absl::Status status = RunTask(tasks_.task(id), arguments);
    if (!status.ok()) {
      return absl::Status(
          status.code(), absl::StrCat(NameOfTask(graph_, tasks_.task(id)), ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

void TaskInterpreter::Spoil(int64_t step) {
  for (const Buffer& buffer : tasks_.buffers()) {
    if (buffer.persistent()) continue;
    uint64_t state = static_cast<uint64_t>(step) * 1000003u + buffer.id.index();
    for (std::byte& byte : storage_[buffer.id.index()]) {
      state = Mix64(state + 0x9e3779b97f4a7c15u);
      // Labels stay legal.
      byte = buffer.dtype == DType::kInt32 ? std::byte{0} : static_cast<std::byte>(state);
    }
  }
}

absl::Status TaskInterpreter::RunTask(const Task& task, const StepArguments& arguments) {
  return std::visit([&](const auto& body) { return Run(body, arguments); }, task.body);
}

TensorArgument TaskInterpreter::Argument(BufferId id, const Box& box, TensorId tensor) {
  TensorArgument argument{nullptr, box, graph_->tensor(tensor).type.shape};
  if (id != kNoBuffer && !storage_[id.index()].empty()) {
    argument.data = storage_[id.index()].data();
  }
  return argument;
}

absl::Status TaskInterpreter::Run(const ComputeTask& task, const StepArguments& step) {
  const Operator& op = graph_->op(task.op);
  std::vector<TensorArgument> inputs, outputs;
  const KernelTensors tensors =
      TensorsOf(*graph_, task, tasks_.signatures()[static_cast<size_t>(task.signature)]);
  for (size_t k = 0; k < task.inputs.size(); ++k) {
    inputs.push_back(Argument(task.inputs[k], task.input_boxes[k], tensors.inputs[k]));
  }
  for (size_t k = 0; k < task.outputs.size(); ++k) {
    const TensorId tensor = tensors.outputs[std::min(k, tensors.outputs.size() - 1)];
    outputs.push_back(Argument(task.outputs[k], task.output_boxes[k], tensor));
  }
  for (const auto& [ids, boxes] :
       {std::pair(&task.inputs, &task.input_boxes), std::pair(&task.outputs, &task.output_boxes)}) {
    for (size_t k = 0; k < ids->size(); ++k) {
      if ((*ids)[k] == kNoBuffer) continue;
      const Buffer& buffer = tasks_.buffer((*ids)[k]);
      if (buffer.device != task.device || buffer.box.volume() != (*boxes)[k].volume()) {
        return absl::InternalError(
            absl::StrCat("buffer ", buffer.id.value(), " of ", ToString(buffer.box), " on device ",
                         buffer.device.value(), " does not hold ", ToString((*boxes)[k])));
      }
    }
  }
  return RunReferenceKernel(tasks_.signatures()[static_cast<size_t>(task.signature)],
                            {inputs, outputs, step, FingerprintOf(graph_->op(op.forward).name)});
}

absl::Status TaskInterpreter::CheckWindow(const BufferWindow& window, const Box& region,
                                          const MoveTask& task, DType dtype) const {
  if (window.buffer == kNoBuffer) return absl::InternalError("a move names no buffer");
  const Buffer& buffer = tasks_.buffer(window.buffer);
  if (buffer.device != task.device || buffer.dtype != dtype || window.offset < 0 ||
      window.offset + window.box.volume() > buffer.elements() || !window.box.Contains(region)) {
    return absl::InternalError(absl::StrCat(
        "a move of ", ToString(region), " does not fit into ", ToString(window.box), " at ",
        window.offset, " of buffer ", buffer.id.value(), " ", ToString(buffer.box)));
  }
  return absl::OkStatus();
}

// Between types of numbers, which C++ converts.
void TaskInterpreter::Convert(const Move& move, const MoveTask& task) {
  WithElementType(task.dtype, [&]<class To>(To) {
    WithElementType(task.from, [&]<class From>(From) {
      if constexpr (std::is_convertible_v<From, To>) {
        auto* to = reinterpret_cast<To*>(storage_[move.to.buffer.index()].data());
        const auto* from = reinterpret_cast<const From*>(storage_[move.from.buffer.index()].data());
        for (int64_t i = 0; i < move.region.volume(); ++i) to[i] = static_cast<To>(from[i]);
      }
    });
  });
}

absl::Status TaskInterpreter::Run(const MoveTask& task, const StepArguments&) {
  for (const Move& move : task.moves) {
    const bool fills = move.kind == MoveSignature::Kind::kFill;
    RETURN_IF_ERROR(CheckWindow(move.to, move.region, task, task.dtype));
    if (!fills) RETURN_IF_ERROR(CheckWindow(move.from, move.region, task, task.from));
    if (move.kind == MoveSignature::Kind::kReorder) {
      Convert(move, task);
      continue;
    }
    WithElementType(task.dtype, [&]<class T>(T) {
      T* to = reinterpret_cast<T*>(storage_[move.to.buffer.index()].data()) + move.to.offset;
      const T* from = fills
                          ? nullptr
                          : reinterpret_cast<const T*>(storage_[move.from.buffer.index()].data()) +
                                move.from.offset;
      ForEachElement(move.region, [&](std::span<const int64_t> at) {
        T& target = to[OffsetIn(move.to.box, at)];
        const T value = fills ? T{} : from[OffsetIn(move.from.box, at)];
        switch (move.kind) {
          case MoveSignature::Kind::kAdd:
            target = target + value;
            break;
          case MoveSignature::Kind::kMax:
            target = target < value ? value : target;
            break;
          default:
            target = value;
        }
      });
    });
  }
  return absl::OkStatus();
}

absl::Status TaskInterpreter::Run(const LoadTask& task, const StepArguments&) {
  const Buffer& buffer = tasks_.buffer(task.buffer);
  const auto it = inputs_.find(buffer.tensor);
  if (it == inputs_.end()) return absl::InternalError("nothing to load");
  storage_[buffer.id.index()] = SliceOf(it->second, buffer.box).bytes;
  return absl::OkStatus();
}

absl::Status TaskInterpreter::CheckSlice(const Slice& slice, DeviceId device, DType dtype) const {
  if (slice.count == 0) return absl::OkStatus();
  if (slice.buffer == kNoBuffer) return absl::InternalError("a slice names no buffer");
  const Buffer& buffer = tasks_.buffer(slice.buffer);
  if (buffer.device != device || buffer.dtype != dtype || slice.offset < 0 ||
      slice.offset + slice.count > buffer.elements()) {
    return absl::InternalError(absl::StrCat(
        "a slice of ", slice.count, " elements at ", slice.offset, " does not fit buffer ",
        buffer.id.value(), " on device ", buffer.device.value()));
  }
  return absl::OkStatus();
}

absl::Status TaskInterpreter::Run(const CollectiveTask& task, const StepArguments&) {
  const auto schedule = BuildSchedule(task.algorithm, task.collective);
  RETURN_IF_ERROR(schedule.status());
  const bool in_place = task.collective.kind != CollectiveKind::kAllToAll;
  const size_t ranks = task.group.size();
  const size_t slices = task.slices();
  if (task.send.size() != ranks * slices || task.receive.size() != ranks * slices ||
      static_cast<size_t>(task.collective.ranks) != ranks) {
    return absl::InternalError("a collective's ranks and slices do not agree");
  }
  for (size_t r = 0; r < ranks; ++r) {
    int64_t sent = 0, received = 0;
    for (size_t k = 0; k < slices; ++k) {
      RETURN_IF_ERROR(CheckSlice(task.sent(r, k), task.group[r], task.dtype));
      RETURN_IF_ERROR(CheckSlice(task.received(r, k), task.group[r], task.dtype));
      sent += task.sent(r, k).count;
      received += task.received(r, k).count;
    }
    const int rank = static_cast<int>(r);
    if (sent != SendElements(task.collective, rank) ||
        received != ReceiveElements(task.collective, rank) ||
        (in_place && task.send != task.receive)) {
      return absl::InternalError("a collective's slices do not have its sizes");
    }
  }
  WithElementType(task.dtype, [&]<class T>(T) {
    auto elements = [&](const Slice& slice) {
      return reinterpret_cast<T*>(storage_[slice.buffer.index()].data()) + slice.offset;
    };
    std::vector<std::vector<T>> send(ranks), receive(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      for (size_t k = 0; k < slices; ++k) {
        const Slice& slice = task.sent(r, k);
        if (slice.count == 0) continue;
        send[r].insert(send[r].end(), elements(slice), elements(slice) + slice.count);
      }
      receive[r].resize(static_cast<size_t>(ReceiveElements(task.collective, static_cast<int>(r))));
    }
    if (in_place) {
      RunInPlace(*schedule, task.collective.reduction, send);
    } else {
      RunSchedule(*schedule, task.collective.reduction, send, receive);
    }
    const auto& results = in_place ? send : receive;
    for (size_t r = 0; r < ranks; ++r) {
      auto from = results[r].begin();
      for (size_t k = 0; k < slices; ++k) {
        const Slice& slice = task.received(r, k);
        if (slice.count == 0) continue;
        std::copy_n(from, slice.count, elements(slice));
        from += slice.count;
      }
    }
  });
  return absl::OkStatus();
}

// All sends read what was there before; a slice that two transfers write is an error.
absl::Status TaskInterpreter::Run(const TransferTask& task, const StepArguments&) {
  std::vector<std::vector<std::byte>> payloads;
  const auto size = static_cast<size_t>(SizeOf(task.dtype));
  for (const Transfer& transfer : task.transfers) {
    RETURN_IF_ERROR(CheckSlice(transfer.send, transfer.from, task.dtype));
    RETURN_IF_ERROR(CheckSlice(transfer.receive, transfer.to, task.dtype));
    if (transfer.send.count != transfer.receive.count || transfer.from == transfer.to) {
      return absl::InternalError("a transfer's ends do not agree");
    }
    for (DeviceId device : {transfer.from, transfer.to}) {
      if (!std::binary_search(task.group.begin(), task.group.end(), device)) {
        return absl::InternalError("a transfer leaves its group");
      }
    }
    const std::byte* from =
        storage_[transfer.send.buffer.index()].data() + transfer.send.offset * size;
    payloads.emplace_back(from, from + static_cast<size_t>(transfer.send.count) * size);
  }
  for (size_t i = 0; i < task.transfers.size(); ++i) {
    const Slice& to = task.transfers[i].receive;
    for (size_t k = 0; k < i; ++k) {
      const Slice& other = task.transfers[k].receive;
      if (other.buffer == to.buffer && other.offset < to.offset + to.count &&
          to.offset < other.offset + other.count) {
        return absl::InternalError("two transfers write one place");
      }
    }
    for (const Transfer& other : task.transfers) {
      const Slice& from = other.send;
      if (from.buffer == to.buffer && from.offset < to.offset + to.count &&
          to.offset < from.offset + from.count) {
        return absl::InternalError("a transfer writes what another one sends");
      }
    }
    std::copy(payloads[i].begin(), payloads[i].end(),
              storage_[to.buffer.index()].begin() + to.offset * static_cast<int64_t>(size));
  }
  return absl::OkStatus();
}

std::vector<TaskId> RandomOrder(const TaskGraph& graph, std::mt19937_64& random) {
  const size_t count = graph.tasks().size();
  std::vector<int> waits(count);
  std::vector<std::vector<TaskId>> followers(count);
  std::vector<TaskId> ready, order;
  for (const Task& task : graph.tasks()) {
    waits[task.id.index()] = static_cast<int>(task.dependencies.size());
    for (TaskId id : task.dependencies) followers[id.index()].push_back(task.id);
    if (task.dependencies.empty()) ready.push_back(task.id);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const TaskId id = ready.back();
    ready.pop_back();
    order.push_back(id);
    for (TaskId next : followers[id.index()]) {
      if (--waits[next.index()] == 0) ready.push_back(next);
    }
  }
  CHECK_EQ(order.size(), count);
  return order;
}

}  // namespace partita

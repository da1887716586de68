#include "graph/task/task_graph.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/collective/algorithms.h"
#include "graph/support/aligned.h"
#include "graph/support/check.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

struct AccessLists {
  BufferList reads, writes;
  Access Take() && { return {std::move(reads).Take(), std::move(writes).Take()}; }
};

Access AccessOfBody(const ComputeTask& task) {
  AccessLists lists;
  for (BufferId id : task.inputs) lists.reads.Add(id);
  for (BufferId id : task.outputs) lists.writes.Add(id);
  return std::move(lists).Take();
}

Access AccessOfBody(const MoveTask& task) {
  AccessLists lists;
  for (const Move& move : task.moves) {
    if (move.kind != MoveSignature::Kind::kFill) lists.reads.Add(move.from.buffer);
    lists.writes.Add(move.to.buffer);
  }
  return std::move(lists).Take();
}

Access AccessOfBody(const LoadTask& task) { return {{}, {task.buffer}}; }

Access AccessOfBody(const CollectiveTask& task) {
  AccessLists lists;
  for (const Slice& slice : task.send) lists.reads.Add(slice.buffer);
  for (const Slice& slice : task.receive) lists.writes.Add(slice.buffer);
  return std::move(lists).Take();
}

Access AccessOfBody(const TransferTask& task) {
  AccessLists lists;
  for (const Transfer& transfer : task.transfers) {
    lists.reads.Add(transfer.send.buffer);
    lists.writes.Add(transfer.receive.buffer);
  }
  return std::move(lists).Take();
}

std::vector<DeviceId> DevicesOfBody(const ComputeTask& task) { return {task.device}; }
std::vector<DeviceId> DevicesOfBody(const MoveTask& task) { return {task.device}; }
std::vector<DeviceId> DevicesOfBody(const LoadTask& task) { return {task.device}; }
std::vector<DeviceId> DevicesOfBody(const CollectiveTask& task) {
  std::vector<DeviceId> devices = task.group;
  std::sort(devices.begin(), devices.end());
  return devices;
}
std::vector<DeviceId> DevicesOfBody(const TransferTask& task) { return task.group; }

}  // namespace

int64_t ElementsSent(const CollectiveTask& task, size_t rank, size_t slice) {
  return task.bucket.empty() ? SendElements(task.collective, static_cast<int>(rank))
                             : task.sent(rank, slice).count;
}

int64_t ElementsToReceive(const CollectiveTask& task, size_t rank, size_t slice) {
  return task.bucket.empty() ? ReceiveElements(task.collective, static_cast<int>(rank))
                             : task.received(rank, slice).count;
}

std::vector<int64_t> SliceStarts(const CollectiveTask& task) {
  std::vector<int64_t> starts{0};
  for (size_t k = 1; k < task.slices(); ++k) {
    starts.push_back(starts.back() + task.sent(0, k - 1).count);
  }
  return starts;
}

absl::StatusOr<CollectiveSchedule> ScheduleOf(const CollectiveTask& task) {
  ASSIGN_OR_RETURN(CollectiveSchedule schedule, BuildSchedule(task.algorithm, task.collective));
  if (task.slices() < 2) return schedule;
  return CutSteps(std::move(schedule), SliceStarts(task));
}

KernelTensors TensorsOf(const Graph& graph, const ComputeTask& task,
                        const KernelSignature& signature) {
  const Operator& last = graph.op(task.op);
  if (task.before.empty()) return {last.inputs, last.outputs};
  KernelTensors tensors;
  tensors.inputs.resize(signature.inputs.size(), kNoTensor);
  tensors.outputs.resize(signature.outputs.size(), kNoTensor);
  const auto note = [&](const std::vector<TensorPlace>& places, const std::vector<TensorId>& ids) {
    for (size_t k = 0; k < places.size(); ++k) {
      const auto index = static_cast<size_t>(places[k].index);
      if (places[k].list == TensorPlace::List::kInput) tensors.inputs[index] = ids[k];
      if (places[k].list == TensorPlace::List::kOutput) tensors.outputs[index] = ids[k];
    }
  };
  for (size_t s = 0; s <= task.before.size(); ++s) {
    const Operator& op = s < task.before.size() ? graph.op(task.before[s]) : last;
    const Wiring& wiring = s == 0 ? signature.fusion.first : signature.fusion.rest[s - 1].wiring;
    note(wiring.inputs, op.inputs);
    note(wiring.outputs, op.outputs);
  }
  return tensors;
}

bool IsCommunication(const Task& task) {
  return std::holds_alternative<CollectiveTask>(task.body) ||
         std::holds_alternative<TransferTask>(task.body);
}

std::vector<DeviceId> DevicesOf(const Task& task) {
  return std::visit([](const auto& body) { return DevicesOfBody(body); }, task.body);
}

Access AccessOf(const Task& task) {
  return std::visit([](const auto& body) { return AccessOfBody(body); }, task.body);
}

BufferUseList UsesOf(const Task& task) {
  const auto* moves = std::get_if<MoveTask>(&task.body);
  if (moves != nullptr && moves->outline != nullptr) {
    return {moves->outline->uses.begin(), moves->outline->uses.end()};
  }
  BufferUseList uses;
  const Access access = AccessOf(task);
  for (BufferId id : access.reads) uses.push_back({id, false});
  for (BufferId id : access.writes) uses.push_back({id, true});
  return uses;
}

TaskGraph TaskGraph::WithTasks(std::vector<Task> tasks, int devices) const {
  TaskGraph graph;
  graph.tasks_ = std::move(tasks);
  graph.buffers_ = buffers_;
  graph.signatures_ = signatures_;
  graph.outputs_ = outputs_;
  graph.devices_ = devices;
  return graph;
}

BufferId TaskGraphBuilder::AddBuffer(Buffer buffer) {
  buffer.id = BufferId(static_cast<int32_t>(graph_.buffers_.size()));
  graph_.buffers_.push_back(std::move(buffer));
  if (finds_dependencies_) dependencies_.AddBuffer();
  return graph_.buffers_.back().id;
}

std::string BoxText(const Buffer& buffer) {
  if (buffer.kind != BufferKind::kStaging) return ToString(buffer.box);
  return absl::StrCat("[0:", buffer.staged, "]");
}

BufferId TaskGraphBuilder::AddStaging(DeviceId device, DType dtype, int64_t elements) {
  return AddBuffer(
      {.device = device, .kind = BufferKind::kStaging, .dtype = dtype, .staged = elements});
}

Slice TaskGraphBuilder::ExtendStaging(BufferId id, int64_t elements) {
  Buffer& buffer = graph_.buffers_[id.index()];
  const int64_t size = SizeOf(buffer.dtype);
  const int64_t offset = Aligned(buffer.elements() * size) / size;
  buffer.staged = offset + elements;
  return {id, offset, elements};
}

// Most parts of an operator are like the one before them.
int32_t TaskGraphBuilder::AddSignature(const KernelSignature& signature) {
  std::vector<KernelSignature>& known = graph_.signatures_;
  if (!known.empty() && known[static_cast<size_t>(last_signature_)] == signature) {
    return last_signature_;
  }
  const auto [it, added] =
      signature_index_.try_emplace(signature, static_cast<int32_t>(known.size()));
  if (added) known.push_back(signature);
  return last_signature_ = it->second;
}

TaskId TaskGraphBuilder::AddTask(TaskKey key, TaskBody body, std::vector<TaskId> after) {
  const TaskId id(static_cast<int32_t>(graph_.tasks_.size()));
  Task task{id, key, std::move(body), {}, std::move(after)};
  if (finds_dependencies_) {
    std::vector<TaskId>& waits = task.dependencies;
    dependencies_.NextTask(UsesOf(task), task.after,
                           [&](TaskId before) { waits.push_back(before); });
    std::sort(waits.begin(), waits.end());
  }
  graph_.tasks_.push_back(std::move(task));
  return id;
}

uint64_t TaskGraph::fingerprint() const {
  Fingerprint f;
  // Tasks and buffers are the same in every precision, and deterministic or not.
  absl::flat_hash_set<std::string> kernels;
  for (const KernelSignature& signature : signatures_) {
    const std::string text =
        ToString(WithDeterminism(InPrecision(signature, Precision::kFloat32), true));
    if (kernels.insert(text).second) f.Add(text);
  }
  for (const Buffer& b : buffers_) {
    f.Add(static_cast<uint64_t>(b.device.value())).Add(BoxText(b));
  }
  for (const Task& task : tasks_) {
    f.Add(static_cast<uint64_t>(task.key.subject)).Add(static_cast<uint64_t>(task.key.phase));
    f.Add(static_cast<uint64_t>(task.key.from)).Add(static_cast<uint64_t>(task.key.to));
    f.Add(static_cast<uint64_t>(task.body.index()));
    const Access access = AccessOf(task);
    for (BufferId id : access.reads) f.Add(static_cast<uint64_t>(id.value()));
    for (BufferId id : access.writes) f.Add(static_cast<uint64_t>(id.value()));
    if (const auto* collective = std::get_if<CollectiveTask>(&task.body)) {
      f.Add(ToString(collective->collective)).Add(collective->algorithm);
      for (TensorId tensor : collective->bucket) f.Add(static_cast<uint64_t>(tensor.value()));
    }
    if (task.after.empty()) continue;
    f.Add("after");
    for (TaskId before : task.after) f.Add(static_cast<uint64_t>(before.value()));
  }
  return f.value();
}

// A run goes on along the dimensions, the last one first, up to the first that is cut.
MoveSignature SignatureOf(MoveSignature::Kind kind, DType dtype, const Box& region, const Box& from,
                          const Box& to) {
  const std::span<const Interval> dims = region.dims(), target = to.dims();
  const bool reads = kind != MoveSignature::Kind::kFill;
  const std::span<const Interval> source = reads ? from.dims() : dims;
  int64_t volume = 1, run = 1;
  bool goes_on = true;
  for (size_t d = dims.size(); d-- > 0;) {
    volume *= dims[d].size();
    if (!goes_on) continue;
    run = volume;
    goes_on = dims[d] == target[d] && dims[d] == source[d];
  }
  return {kind, dtype, volume, run};
}

std::vector<MoveSignature> SignaturesOf(const MoveTask& task) {
  std::vector<MoveSignature> signatures;
  if (task.outline != nullptr) {
    for (const auto& [signature, moves] : task.outline->runs) {
      signatures.insert(signatures.end(), static_cast<size_t>(moves), signature);
    }
    return signatures;
  }
  for (const Move& move : task.moves) {
    signatures.push_back(
        SignatureOf(move.kind, task.dtype, move.region, move.from.box, move.to.box));
    signatures.back().from = task.from;
  }
  return signatures;
}

int64_t ElementsReceived(const CollectiveTask& task, DeviceId device) {
  const auto it = std::find(task.group.begin(), task.group.end(), device);
  if (it == task.group.end()) return 0;
  const auto totals = TotalsOf(task.algorithm, task.collective);
  CHECK(totals.ok()) << totals.status();
  return totals->received[static_cast<size_t>(it - task.group.begin())];
}

int64_t ElementsReceived(const TransferTask& task, DeviceId device) {
  int64_t elements = 0;
  for (const Transfer& transfer : task.transfers) {
    if (transfer.to == device && transfer.from != device) elements += transfer.receive.count;
  }
  return elements;
}

std::vector<Bytes> BytesReceived(const TaskGraph& graph) {
  std::vector<Bytes> bytes(static_cast<size_t>(graph.devices()));
  for (const Task& task : graph.tasks()) {
    if (const auto* collective = std::get_if<CollectiveTask>(&task.body)) {
      const auto totals = TotalsOf(collective->algorithm, collective->collective);
      CHECK(totals.ok()) << totals.status();
      const auto& received = totals->received;
      for (size_t r = 0; r < collective->group.size(); ++r) {
        bytes[collective->group[r].index()] += Bytes(received[r] * SizeOf(collective->dtype));
      }
    } else if (const auto* transfer = std::get_if<TransferTask>(&task.body)) {
      for (const Transfer& one : transfer->transfers) {
        if (one.to == one.from) continue;
        bytes[one.to.index()] += Bytes(one.receive.count * SizeOf(transfer->dtype));
      }
    }
  }
  return bytes;
}

}  // namespace partita

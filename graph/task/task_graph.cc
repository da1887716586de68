#include "graph/task/task_graph.h"

#include <algorithm>

#include "graph/collective/algorithms.h"
#include "graph/support/check.h"
#include "graph/support/fingerprint.h"

namespace partita {
namespace {

void AddUnique(absl::InlinedVector<BufferId, 6>& list, BufferId id) {
  if (id == kNoBuffer) return;
  if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
}

Access AccessOfBody(const ComputeTask& task) {
  Access access;
  for (BufferId id : task.inputs) AddUnique(access.reads, id);
  for (BufferId id : task.outputs) AddUnique(access.writes, id);
  return access;
}

Access AccessOfBody(const MoveTask& task) {
  Access access;
  for (const Move& move : task.moves) {
    if (move.kind != MoveSignature::Kind::kFill) AddUnique(access.reads, move.from.buffer);
    AddUnique(access.writes, move.to.buffer);
  }
  return access;
}

Access AccessOfBody(const LoadTask& task) { return {{}, {task.buffer}}; }

Access AccessOfBody(const CollectiveTask& task) {
  Access access;
  for (const Slice& slice : task.send) AddUnique(access.reads, slice.buffer);
  for (const Slice& slice : task.receive) AddUnique(access.writes, slice.buffer);
  return access;
}

Access AccessOfBody(const TransferTask& task) {
  Access access;
  for (const Transfer& transfer : task.transfers) {
    AddUnique(access.reads, transfer.send.buffer);
    AddUnique(access.writes, transfer.receive.buffer);
  }
  return access;
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

std::vector<TensorId> InputTensors(const Graph& graph, const ComputeTask& task) {
  const std::vector<TensorId>& own = graph.op(task.op).inputs;
  if (task.gradient == kNoOp) return own;
  const std::vector<TensorId>& read = graph.op(task.gradient).inputs;
  std::vector<TensorId> tensors = read;
  for (size_t k = 0; k < own.size(); ++k) {
    if (k != kGradientInput) tensors.push_back(own[k]);
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

BufferId TaskGraphBuilder::AddBuffer(Buffer buffer) {
  buffer.id = BufferId(static_cast<int32_t>(graph_.buffers_.size()));
  graph_.buffers_.push_back(std::move(buffer));
  uses_.emplace_back();
  return graph_.buffers_.back().id;
}

BufferId TaskGraphBuilder::AddStaging(DeviceId device, DType dtype, int64_t elements) {
  return AddBuffer(
      {.device = device, .kind = BufferKind::kStaging, .dtype = dtype, .box = Box{{0, elements}}});
}

int32_t TaskGraphBuilder::AddSignature(const KernelSignature& signature) {
  const auto [it, added] =
      signature_index_.try_emplace(signature, static_cast<int32_t>(graph_.signatures_.size()));
  if (added) graph_.signatures_.push_back(signature);
  return it->second;
}

TaskId TaskGraphBuilder::AddTask(TaskKey key, TaskBody body) {
  const TaskId id(static_cast<int32_t>(graph_.tasks_.size()));
  Task task{id, key, std::move(body), {}};
  const Access access = AccessOf(task);
  std::vector<TaskId>& waits = task.dependencies;
  for (BufferId buffer : access.reads) {
    const Uses& uses = uses_[buffer.index()];
    waits.insert(waits.end(), uses.writers.begin(), uses.writers.end());
  }
  for (BufferId buffer : access.writes) {
    const Uses& uses = uses_[buffer.index()];
    waits.insert(waits.end(), uses.writers.begin(), uses.writers.end());
    waits.insert(waits.end(), uses.readers.begin(), uses.readers.end());
  }
  std::sort(waits.begin(), waits.end());
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  for (BufferId buffer : access.reads) uses_[buffer.index()].readers.push_back(id);
  for (BufferId buffer : access.writes) uses_[buffer.index()] = {{id}, {}};
  graph_.tasks_.push_back(std::move(task));
  return id;
}

uint64_t TaskGraph::fingerprint() const {
  Fingerprint f;
  for (const KernelSignature& signature : signatures_) f.Add(ToString(signature));
  for (const Buffer& b : buffers_) {
    f.Add(static_cast<uint64_t>(b.device.value())).Add(ToString(b.box));
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
    }
  }
  return f.value();
}

namespace {

// Elements of `region` that lie in one run in a window.
int64_t RunIn(const Box& region, const Box& outer) {
  int64_t run = 1;
  for (int d = region.rank(); d-- > 0;) {
    run *= region[d].size();
    if (region[d] != outer[d]) break;
  }
  return run;
}

}  // namespace

std::vector<MoveSignature> SignaturesOf(const MoveTask& task) {
  std::vector<MoveSignature> signatures;
  for (const Move& move : task.moves) {
    const int64_t elements = move.region.volume();
    int64_t run = RunIn(move.region, move.to.box);
    if (move.kind != MoveSignature::Kind::kFill) {
      run = std::min(run, RunIn(move.region, move.from.box));
    }
    signatures.push_back({move.kind, task.dtype, elements, run});
  }
  return signatures;
}

int64_t ElementsReceived(const CollectiveTask& task, DeviceId device) {
  const auto it = std::find(task.group.begin(), task.group.end(), device);
  if (it == task.group.end()) return 0;
  const auto schedule = BuildSchedule(task.algorithm, task.collective);
  CHECK(schedule.ok()) << schedule.status();
  return ElementsReceived(*schedule)[static_cast<size_t>(it - task.group.begin())];
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
      const auto schedule = BuildSchedule(collective->algorithm, collective->collective);
      CHECK(schedule.ok()) << schedule.status();
      const auto received = ElementsReceived(*schedule);
      for (size_t r = 0; r < collective->group.size(); ++r) {
        bytes[collective->group[r].index()] += Bytes(received[r] * SizeOf(collective->dtype));
      }
    } else if (const auto* transfer = std::get_if<TransferTask>(&task.body)) {
      for (DeviceId device : transfer->group) {
        bytes[device.index()] +=
            Bytes(ElementsReceived(*transfer, device) * SizeOf(transfer->dtype));
      }
    }
  }
  return bytes;
}

}  // namespace partita

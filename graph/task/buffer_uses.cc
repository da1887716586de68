#include <algorithm>

#include "graph/task/buffer_assignment.h"

namespace partita {
namespace {

// Rows in which a kernel may write an output over an input, as far as the kernel decides it.
void AddOverwrites(const TaskGraph& graph, const ComputeTask& task,
                   std::vector<BufferUses::Overwrite>& rows) {
  const KernelSignature& signature = graph.signatures()[static_cast<size_t>(task.signature)];
  for (const InPlacePair& pair : InPlace(signature)) {
    const auto i = static_cast<size_t>(pair.input), o = static_cast<size_t>(pair.output);
    if (i >= task.inputs.size()) continue;
    const BufferId from = task.inputs[i], to = task.outputs[o];
    if (from == kNoBuffer || to == kNoBuffer || from == to) continue;
    if (graph.buffer(to).persistent()) continue;  // has its place
    if (std::count(task.inputs.begin(), task.inputs.end(), from) > 1) continue;
    rows.push_back({from, to});
  }
}

void AddUses(const Task& task, std::vector<BufferUse>& list) {
  const auto* moves = std::get_if<MoveTask>(&task.body);
  if (moves != nullptr && moves->outline != nullptr) {
    list.insert(list.end(), moves->outline->uses.begin(), moves->outline->uses.end());
    return;
  }
  const BufferUseList uses = UsesOf(task);
  list.insert(list.end(), uses.begin(), uses.end());
}

void AddScratch(const TaskGraph& graph, const MemorySizes& sizes,
                std::vector<BufferUses::Scratch>& scratch) {
  if (!sizes.scratch_bytes) return;
  std::vector<int64_t> bytes;
  for (const KernelSignature& s : graph.signatures()) bytes.push_back(sizes.scratch_bytes(s));
  for (const Task& task : graph.tasks()) {
    if (const auto* compute = std::get_if<ComputeTask>(&task.body)) {
      scratch.push_back({compute->device, bytes[static_cast<size_t>(compute->signature)]});
    }
  }
}

}  // namespace

BufferUses FindBufferUses(const TaskGraph& graph, const MemorySizes& sizes) {
  BufferUses found;
  found.devices = graph.devices();
  for (const Buffer& buffer : graph.buffers()) {
    const int64_t bytes =
        sizes.buffer_bytes ? sizes.buffer_bytes(buffer) : buffer.elements() * SizeOf(buffer.dtype);
    found.buffers.push_back({.bytes = bytes,
                             .device = buffer.device,
                             .format = buffer.format,
                             .persistent = buffer.persistent()});
  }
  for (const HostOutput& output : graph.outputs()) {
    found.buffers[output.buffer.index()].host_reads = true;
  }
  found.use_begin.push_back(0);
  found.overwrite_begin.push_back(0);
  for (const Task& task : graph.tasks()) {
    found.is_communication.push_back(IsCommunication(task));
    AddUses(task, found.uses);
    if (const auto* compute = std::get_if<ComputeTask>(&task.body)) {
      AddOverwrites(graph, *compute, found.overwrites);
    }
    found.use_begin.push_back(static_cast<int32_t>(found.uses.size()));
    found.overwrite_begin.push_back(static_cast<int32_t>(found.overwrites.size()));
  }
  AddScratch(graph, sizes, found.scratch);
  return found;
}

BufferAssignment AssignBuffers(const TaskGraph& graph, std::span<const TaskId> order,
                               const MemorySizes& sizes) {
  return AssignBuffers(FindBufferUses(graph, sizes), order);
}

}  // namespace partita

#include <algorithm>
#include <utility>
#include <variant>

#include "graph/support/heap_bytes.h"
#include "graph/task/task_graph.h"

namespace partita {
namespace {

int64_t BytesOfWiring(const Wiring& wiring) { return HeapBytesOf(wiring.inputs, wiring.outputs); }

struct BodyBytes {
  int64_t operator()(const ComputeTask& task) const {
    return HeapBytesOf(task.inputs, task.outputs, task.input_boxes, task.output_boxes) +
           HeapBytesOf(task.before);
  }
  int64_t operator()(const MoveTask& task) const {
    const MoveOutline* outline = task.outline.get();
    if (outline == nullptr) return HeapBytesOf(task.moves);
    constexpr size_t kCounts = 16;  // of what shares it
    return HeapBytesOfAllocation(sizeof(MoveOutline) + kCounts) +
           HeapBytesOf(outline->runs, outline->uses);
  }
  int64_t operator()(const LoadTask&) const { return 0; }
  int64_t operator()(const CollectiveTask& task) const {
    int64_t bytes = HeapBytesOf(task.group, task.send, task.receive, task.bucket) +
                    HeapBytesOf(task.algorithm, task.collective.blocks, task.collective.counts);
    for (const auto& row : task.collective.counts) bytes += HeapBytesOf(row);
    return bytes;
  }
  int64_t operator()(const TransferTask& task) const {
    return HeapBytesOf(task.group, task.transfers);
  }
};

int64_t BytesOfSignature(const KernelSignature& signature) {
  const Fusion& fusion = signature.fusion;
  int64_t bytes = HeapBytesOf(signature.inputs, signature.outputs) + BytesOfWiring(fusion.first) +
                  HeapBytesOf(fusion.rest, fusion.inner);
  for (const FusedOperator& other : fusion.rest) bytes += BytesOfWiring(other.wiring);
  return bytes;
}

}  // namespace

int64_t TaskGraph::HeapBytes() const {
  int64_t bytes = HeapBytesOf(tasks_, buffers_, signatures_, outputs_);
  for (const Task& task : tasks_) {
    bytes += HeapBytesOf(task.dependencies, task.after) + std::visit(BodyBytes(), task.body);
  }
  for (const KernelSignature& signature : signatures_) bytes += BytesOfSignature(signature);
  return bytes;
}

int64_t TaskGraph::KeepCollectives() {
  const int64_t before = HeapBytes();
  const size_t all = size(), all_slots = slots();
  std::vector<Task> kept;
  std::vector<bool> is_used(all_slots, false);
  for (Task& task : tasks_) {
    const auto* body = std::get_if<CollectiveTask>(&task.body);
    if (body == nullptr) continue;
    for (const auto* slices : {&body->send, &body->receive}) {
      for (const Slice& slice : *slices) {
        if (slice.buffer != kNoBuffer) is_used[slice.buffer.index()] = true;
      }
    }
    kept.push_back(std::move(task));
  }
  kept.shrink_to_fit();
  tasks_ = std::move(kept);
  left_out_ = all - tasks_.size();
  std::erase_if(buffers_, [&](const Buffer& buffer) { return !is_used[buffer.id.index()]; });
  buffers_.shrink_to_fit();
  slots_left_out_ = all_slots - buffers_.size();
  signatures_ = {};
  return before - HeapBytes();
}

}  // namespace partita

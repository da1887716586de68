#include "graph/partition/pending_moves.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

namespace partita {
namespace {

// Notes a buffer of a task in its list, once. Numbers of tasks that are not flushed are at least
// `first`: mostly a buffer is one's alone.
void Note(BufferId buffer, int64_t task, int64_t first, std::vector<int64_t>& noted_for,
          std::vector<BufferId>& list) {
  if (buffer == kNoBuffer || (!list.empty() && list.back() == buffer)) return;
  if (noted_for.size() <= buffer.index()) noted_for.resize(2 * buffer.index() + 1, 0);
  const int64_t last = std::exchange(noted_for[buffer.index()], task);
  if (last == task) return;
  if (last >= first && std::find(list.begin(), list.end(), buffer) != list.end()) return;
  list.push_back(buffer);
}

}  // namespace

void PendingMoves::Add(const Target& target, MoveSignature::Kind kind, const Ends& ends,
                       std::span<const Box> boxes) {
  if (kind == MoveSignature::Kind::kCopy && ends.from.buffer() == ends.to.buffer()) return;
  Phase& phase = phases_[NumberOf(target.phase)];
  Making& task = TaskOf(phase, target);
  if (outlines_) return AddToOutline(phase, task, kind, ends, boxes);
  int64_t before = 0;  // elements of the boxes so far
  for (const Box& box : boxes) {
    task.moves.push_back(
        {kind, ends.from.WindowOf(box, before), ends.to.WindowOf(box, before), &box});
    if (boxes.size() > 1) before += box.volume();
  }
}

// Few moves are of other microbatches than the first.
PendingMoves::Making& PendingMoves::TaskOf(Phase& phase, const Target& target) {
  if (phase.of_device.size() <= target.device.index()) {
    phase.of_device.resize(target.device.index() + 1, -1);
  }
  int32_t& first = phase.of_device[target.device.index()];
  for (int32_t place = first; place >= 0;) {
    Making& task = phase.tasks[static_cast<size_t>(place)];
    if (task.microbatch == target.microbatch) return task;
    place = task.next;
  }
  if (phase.size == phase.tasks.size()) phase.tasks.emplace_back();
  Making& task = phase.tasks[phase.size];
  task.device = target.device;
  task.microbatch = target.microbatch;
  task.number = ++numbers_;
  task.next = std::exchange(first, static_cast<int32_t>(phase.size++));
  return task;
}

void PendingMoves::AddToOutline(Phase& phase, Making& task, MoveSignature::Kind kind,
                                const Ends& ends, std::span<const Box> boxes) const {
  for (const Box& box : boxes) {
    const MoveSignature signature =
        SignatureOf(kind, dtype_, box, ends.from.BoxAround(box), ends.to.BoxAround(box));
    if (!task.runs.empty() && task.runs.back().signature == signature) {
      ++task.runs.back().moves;
    } else {
      task.runs.push_back({signature});
    }
  }
  Note(ends.from.buffer(), task.number, phase.first_number, phase.read_for, task.reads);
  Note(ends.to.buffer(), task.number, phase.first_number, phase.written_for, task.writes);
}

void PendingMoves::Flush(const TaskKey& key, TaskGraphBuilder& builder) {
  Phase& phase = phases_[NumberOf(key.phase)];
  by_device_.resize(phase.size);
  std::iota(by_device_.begin(), by_device_.end(), 0);
  std::sort(by_device_.begin(), by_device_.end(), [&](int32_t a, int32_t b) {
    const Making &x = phase.tasks[static_cast<size_t>(a)], &y = phase.tasks[static_cast<size_t>(b)];
    return std::tie(x.device, x.microbatch) < std::tie(y.device, y.microbatch);
  });
  for (int32_t place : by_device_) {
    Making& task = phase.tasks[static_cast<size_t>(place)];
    TaskKey own = key;
    own.from = task.device.value();
    own.to = task.microbatch > 0 ? -task.microbatch : task.device.value();
    builder.AddTask(own, outlines_ ? OutlinedTask(dtype_, task) : WholeTask(task));
    phase.of_device[task.device.index()] = -1;
    task.moves.clear();
    task.runs.clear();
    task.reads.clear();
    task.writes.clear();
  }
  phase.size = 0;
  phase.first_number = numbers_ + 1;
}

MoveTask PendingMoves::WholeTask(const Making& task) const {
  MoveTask whole{task.device, dtype_, {}};
  whole.moves.reserve(task.moves.size());
  for (const Pending& move : task.moves) {
    whole.moves.push_back(
        {move.kind, ToBufferWindow(move.from), ToBufferWindow(move.to), *move.region});
  }
  return whole;
}

MoveTask PendingMoves::OutlinedTask(DType dtype, const Making& task) {
  MoveOutline outline{.runs = task.runs};
  outline.uses.reserve(task.reads.size() + task.writes.size());
  for (BufferId id : task.reads) outline.uses.push_back({id, false});
  for (BufferId id : task.writes) outline.uses.push_back({id, true});
  MoveTask outlined{task.device, dtype, {}};
  outlined.outline = std::make_shared<const MoveOutline>(std::move(outline));
  return outlined;
}

}  // namespace partita

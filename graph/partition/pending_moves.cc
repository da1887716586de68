#include "graph/partition/pending_moves.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

namespace partita {

void PendingMoves::Add(const Target& target, MoveSignature::Kind kind, const Ends& ends,
                       std::span<const Box> boxes) {
  std::vector<Pending>& moves = moves_[NumberOf(target.phase)];
  int64_t before = 0;  // elements of the boxes so far
  ends.from.ForEach(boxes, [&](const WindowRef& from, const Box& box) {
    const WindowRef to = ends.to.WindowOf(box, before);
    if (boxes.size() > 1) before += box.volume();
    if (kind == MoveSignature::Kind::kCopy && from.buffer == to.buffer) return;
    moves.push_back({target.device, target.microbatch, kind, from, to, &box});
  });
}

void PendingMoves::Flush(const TaskKey& key, TaskGraphBuilder& builder) {
  std::vector<Pending>& moves = moves_[NumberOf(key.phase)];
  OrderByTask(moves);
  for (auto it = by_task_.begin(); it != by_task_.end();) {
    const Pending& first = moves[static_cast<size_t>(*it)];
    const auto end = std::find_if(it, by_task_.end(), [&](int32_t number) {
      const Pending& move = moves[static_cast<size_t>(number)];
      return move.device != first.device || move.microbatch != first.microbatch;
    });
    TaskKey own = key;
    own.from = first.device.value();
    own.to = first.microbatch > 0 ? -first.microbatch : first.device.value();
    const std::span<const int32_t> numbers(it, end);
    builder.AddTask(own, outlines_ ? OutlinedTask(moves, numbers) : WholeTask(moves, numbers));
    it = end;
  }
  moves.clear();
}

// Counts the moves of each device; few are of other microbatches than the first.
void PendingMoves::OrderByTask(const std::vector<Pending>& moves) {
  begin_.clear();
  for (const Pending& move : moves) {
    if (begin_.size() < move.device.index() + 2) begin_.resize(move.device.index() + 2, 0);
    ++begin_[move.device.index() + 1];
  }
  for (size_t d = 1; d < begin_.size(); ++d) begin_[d] += begin_[d - 1];
  by_task_.resize(moves.size());
  bool has_microbatches = false;
  for (size_t k = 0; k < moves.size(); ++k) {
    by_task_[static_cast<size_t>(begin_[moves[k].device.index()]++)] = static_cast<int32_t>(k);
    has_microbatches |= moves[k].microbatch != 0;
  }
  if (!has_microbatches) return;
  std::stable_sort(by_task_.begin(), by_task_.end(), [&](int32_t a, int32_t b) {
    const Pending &x = moves[static_cast<size_t>(a)], &y = moves[static_cast<size_t>(b)];
    return std::tie(x.device, x.microbatch) < std::tie(y.device, y.microbatch);
  });
}

MoveTask PendingMoves::WholeTask(std::span<const Pending> moves,
                                 std::span<const int32_t> numbers) const {
  MoveTask task{moves[static_cast<size_t>(numbers[0])].device, dtype_, {}};
  task.moves.reserve(numbers.size());
  for (int32_t number : numbers) {
    const Pending& move = moves[static_cast<size_t>(number)];
    task.moves.push_back(
        {move.kind, ToBufferWindow(move.from), ToBufferWindow(move.to), *move.region});
  }
  return task;
}

MoveTask PendingMoves::OutlinedTask(std::span<const Pending> moves,
                                    std::span<const int32_t> numbers) {
  runs_.clear();
  reads_.Clear();
  writes_.Clear();
  for (int32_t number : numbers) {
    const Pending& move = moves[static_cast<size_t>(number)];
    const MoveSignature signature =
        SignatureOf(move.kind, dtype_, *move.region, *move.from.box, *move.to.box);
    if (!runs_.empty() && runs_.back().signature == signature) {
      ++runs_.back().moves;
    } else {
      runs_.push_back({signature});
    }
    reads_.Add(move.from.buffer);
    writes_.Add(move.to.buffer);
  }
  MoveOutline outline{.runs = runs_};
  outline.uses.reserve(reads_.ids().size() + writes_.ids().size());
  for (BufferId id : reads_.ids()) outline.uses.push_back({id, false});
  for (BufferId id : writes_.ids()) outline.uses.push_back({id, true});
  MoveTask task{moves[static_cast<size_t>(numbers[0])].device, dtype_, {}};
  task.outline = std::make_shared<const MoveOutline>(std::move(outline));
  return task;
}

}  // namespace partita

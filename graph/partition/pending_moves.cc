#include "graph/partition/pending_moves.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace partita {

void PendingMoves::Add(const Target& target, MoveSignature::Kind kind, const WindowRef& from,
                       const WindowRef& to, const Box& region) {
  if (kind == MoveSignature::Kind::kCopy && from.buffer == to.buffer) return;
  moves_[NumberOf(target.phase)].push_back(
      {target.device, target.microbatch, kind, from, to, &region});
}

void PendingMoves::Flush(const TaskKey& key, TaskGraphBuilder& builder) {
  std::vector<Pending>& moves = moves_[NumberOf(key.phase)];
  places_.clear();
  for (const Pending& move : moves) {
    places_.push_back({move.device, move.microbatch, static_cast<int32_t>(places_.size())});
  }
  std::sort(places_.begin(), places_.end());
  for (auto it = places_.begin(); it != places_.end();) {
    const auto end = std::find_if(it, places_.end(), [first = *it](const Place& place) {
      return place.device != first.device || place.microbatch != first.microbatch;
    });
    TaskKey own = key;
    own.from = it->device.value();
    own.to = it->microbatch > 0 ? -it->microbatch : it->device.value();
    const std::span<const Place> places(it, end);
    builder.AddTask(own, outlines_ ? OutlinedTask(moves, places) : WholeTask(moves, places));
    it = end;
  }
  moves.clear();
}

MoveTask PendingMoves::WholeTask(std::span<const Pending> moves,
                                 std::span<const Place> places) const {
  MoveTask task{places[0].device, dtype_, {}};
  task.moves.reserve(places.size());
  for (const Place& place : places) {
    const Pending& move = moves[static_cast<size_t>(place.number)];
    task.moves.push_back(
        {move.kind, ToBufferWindow(move.from), ToBufferWindow(move.to), *move.region});
  }
  return task;
}

MoveTask PendingMoves::OutlinedTask(std::span<const Pending> moves,
                                    std::span<const Place> places) const {
  MoveOutline outline;
  BufferList reads, writes;
  for (const Place& place : places) {
    const Pending& move = moves[static_cast<size_t>(place.number)];
    const MoveSignature signature =
        SignatureOf(move.kind, dtype_, *move.region, *move.from.box, *move.to.box);
    if (!outline.runs.empty() && outline.runs.back().signature == signature) {
      ++outline.runs.back().moves;
    } else {
      outline.runs.push_back({signature});
    }
    reads.Add(move.from.buffer);
    writes.Add(move.to.buffer);
  }
  for (BufferId id : reads.ids()) outline.uses.push_back({id, false});
  for (BufferId id : writes.ids()) outline.uses.push_back({id, true});
  MoveTask task{places[0].device, dtype_, {}};
  task.outline = std::make_shared<const MoveOutline>(std::move(outline));
  return task;
}

}  // namespace partita

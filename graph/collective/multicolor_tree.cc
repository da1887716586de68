#include "graph/collective/multicolor_tree.h"

#include <algorithm>
#include <utility>

#include "graph/support/check.h"

// Segments move in lockstep, height H: in round H - L + s ranks of level L send segment s up, in
// round H + L + s they send it down. In one round a rank meets a segment only once, so nothing that
// it sends is written in the same round.

namespace partita {
namespace {

int LogicalId(int ranks, int colors, int color, int rank) {
  return (rank - TreeRoot(ranks, colors, color) + ranks) % ranks;
}

// Rounds are as many as levels and segments, so that more segments than levels keep every link busy
// most of the time; and short messages are under way while ranks wait for those before. Shorter
// than this they cost more by themselves than that saves.
int SegmentsFor(int64_t elements) {
  constexpr int64_t kLeast = 8 << 10, kMost = 128;
  return static_cast<int>(std::clamp<int64_t>(elements / kLeast, 1, kMost));
}

int LevelOfId(int id, int colors) {
  int level = 0;
  for (; id > 0; id = (id - 1) / colors) ++level;
  return level;
}

}  // namespace

int TreeRoot(int ranks, int colors, int color) {
  return static_cast<int>(int64_t{color} * ranks / colors);
}

int TreeParent(int ranks, int colors, int color, int rank) {
  const int id = LogicalId(ranks, colors, color, rank);
  if (id == 0) return -1;
  return ((id - 1) / colors + TreeRoot(ranks, colors, color)) % ranks;
}

int TreeLevel(int ranks, int colors, int color, int rank) {
  return LevelOfId(LogicalId(ranks, colors, color, rank), colors);
}

void WriteMulticolorTree(const Collective& collective, const ScheduleOptions& options,
                         ScheduleWriter& out) {
  CHECK(collective.kind == CollectiveKind::kAllReduce)
      << "multicolor_tree does not do " << Name(collective.kind);
  const int ranks = collective.ranks;
  const int colors = std::min(options.colors, ranks);
  const int count =
      options.segments > 0 ? options.segments : SegmentsFor(collective.total / colors);
  const int height = LevelOfId(ranks - 1, colors);
  std::vector<std::vector<CollectiveStep>> rounds(static_cast<size_t>(2 * height + count - 1));
  const auto add = [&rounds](int round, int from, int to, ElementRange block, StepAction action) {
    rounds[static_cast<size_t>(round)].push_back(
        {from, to, block.offset, block.offset, block.count, action});
  };
  const std::vector<ElementRange> slices = EvenBlocks(collective.total, colors);
  for (int color = 0; color < colors; ++color) {
    const std::vector<ElementRange> segments = EvenBlocks(slices[color].count, count);
    for (int rank = 0; rank < ranks; ++rank) {
      const int parent = TreeParent(ranks, colors, color, rank);
      if (parent < 0) continue;
      const int level = TreeLevel(ranks, colors, color, rank);
      for (int s = 0; s < count; ++s) {
        const ElementRange block = {slices[color].offset + segments[s].offset, segments[s].count};
        add(height - level + s, rank, parent, block, StepAction::kReduce);
        add(height + level - 1 + s, parent, rank, block, StepAction::kCopy);
      }
    }
  }
  for (const std::vector<CollectiveStep>& round : rounds) {
    for (const CollectiveStep& step : round) out.Step(step);
    out.EndRound();
  }
}

}  // namespace partita

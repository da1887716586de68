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

// The tree of one colour, whose elements travel in segments.
class ColorTree {
 public:
  ColorTree(int ranks, int colors, int color, const ElementRange& slice, int segments)
      : height_(LevelOfId(ranks - 1, colors)), segments_(EvenBlocks(slice.count, segments)) {
    for (ElementRange& segment : segments_) segment.offset += slice.offset;
    for (int rank = 0; rank < ranks; ++rank) {
      const int parent = TreeParent(ranks, colors, color, rank);
      if (parent >= 0) edges_.push_back({rank, parent, TreeLevel(ranks, colors, color, rank)});
    }
  }

  bool has_segments_of_one_size() const { return AreOfOneSize(segments_); }

  void WriteRound(int round, ScheduleWriter& out) const {
    for (const Edge& edge : edges_) {
      const int up = round - (height_ - edge.level), down = round - (height_ + edge.level - 1);
      if (Has(down)) out.Step(edge.parent, edge.rank, SegmentAt(down), StepAction::kCopy);
      if (Has(up)) out.Step(edge.rank, edge.parent, SegmentAt(up), StepAction::kReduce);
    }
  }

 private:
  struct Edge {
    int rank, parent, level;
  };

  bool Has(int segment) const {
    return segment >= 0 && segment < static_cast<int>(segments_.size());
  }
  const ElementRange& SegmentAt(int segment) const {
    return segments_[static_cast<size_t>(segment)];
  }

  const int height_;
  std::vector<ElementRange> segments_;
  std::vector<Edge> edges_;
};

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
  const int segments =
      options.segments > 0 ? options.segments : SegmentsFor(collective.total / colors);
  const int height = LevelOfId(ranks - 1, colors);
  const std::vector<ElementRange> slices = EvenBlocks(collective.total, colors);
  std::vector<ColorTree> trees;
  bool are_alike = true;
  for (int color = 0; color < colors; ++color) {
    trees.emplace_back(ranks, colors, color, slices[static_cast<size_t>(color)], segments);
    are_alike &= trees.back().has_segments_of_one_size();
  }
  // Rounds in which every rank but the roots sends up and gets from above.
  const int first_full = 2 * height - 1;
  for (int round = 0; round < 2 * height + segments - 1 && out.wants_more(); ++round) {
    for (const ColorTree& tree : trees) tree.WriteRound(round, out);
    if (are_alike && round == first_full && round < segments &&
        out.EndAlikeRounds(segments - round)) {
      round = segments - 1;
      continue;
    }
    out.EndRound();
  }
}

}  // namespace partita

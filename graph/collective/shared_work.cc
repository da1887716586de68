#include "graph/collective/shared_work.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/support/check.h"

// [0, total) is cut wherever a block or a step begins or ends; what lies between two cuts is a
// cell. The rounds are run on expressions instead of numbers: a cell of a rank holds the number of
// an expression, and equal expressions have one number, so ranks that end with the same value are
// seen to. A backward run over the rounds tells which cells are still wanted.

namespace partita {
namespace {

constexpr int64_t kGrain = 512;  // elements that are not worth sharing
constexpr int64_t kAlign = 16;   // elements; shares begin at multiples of it

class Expressions {
 public:
  explicit Expressions(int ranks) : children_(static_cast<size_t>(ranks)) {}

  // In this order; a first value that is a sum itself is continued.
  int Fold(const std::vector<int>& values) {
    std::vector<int> flat = children_[static_cast<size_t>(values[0])];
    if (flat.empty()) flat.push_back(values[0]);
    flat.insert(flat.end(), values.begin() + 1, values.end());
    const auto [found, added] = number_.try_emplace(flat, static_cast<int>(children_.size()));
    if (added) children_.push_back(std::move(flat));
    return found->second;
  }

  SharedValue Value(int expression) const {
    const std::vector<int>& children = children_[static_cast<size_t>(expression)];
    if (children.empty()) return {.rank = expression, .folded = {}};
    SharedValue value;
    for (int child : children) value.folded.push_back(Value(child));
    return value;
  }

 private:
  std::vector<std::vector<int>> children_;  // empty: what that rank had
  std::map<std::vector<int>, int> number_;
};

class Fusion {
 public:
  Fusion(const Collective& collective, const CollectiveSchedule& schedule)
      : collective_(collective), schedule_(schedule), expressions_(collective.ranks) {
    cuts_ = {0, collective.total};
    for (const ElementRange& block : collective.blocks) cuts_.push_back(block.offset);
    for (const CollectiveRound& round : schedule.rounds) {
      for (const CollectiveStep& step : round.steps) {
        cuts_.insert(cuts_.end(), {step.source_offset, step.source().end()});
      }
    }
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    const auto ranks = static_cast<size_t>(collective.ranks);
    content_.resize(ranks);
    for (size_t rank = 0; rank < ranks; ++rank) {
      content_[rank].assign(cuts_.size() - 1, static_cast<int>(rank));
      live_.emplace_back(cuts_.size() - 1, true);
    }
  }

  // Which cells are wanted after round `last` - 1.
  void FindLive(size_t last) {
    for (size_t rank = 0; rank < collective_.blocks.size(); ++rank) {
      if (collective_.kind != CollectiveKind::kReduceScatter) break;
      live_[rank].assign(cuts_.size() - 1, false);
      SetLive(static_cast<int>(rank), collective_.blocks[rank], true);
    }
    for (size_t r = schedule_.rounds.size(); r-- > last;) {
      const auto& steps = schedule_.rounds[r].steps;
      for (const CollectiveStep& step : steps) {
        if (step.action == StepAction::kCopy) SetLive(step.to, step.destination(), false);
      }
      for (const CollectiveStep& step : steps) SetLive(step.from, step.source(), true);
    }
  }

  void Run(const CollectiveRound& round, std::span<const int> together) {
    // By rank and cell: what arrives there, by sender.
    std::map<std::pair<int, size_t>, std::map<int, int>> arrivals;
    for (const CollectiveStep& step : round.steps) {
      if (!std::binary_search(together.begin(), together.end(), step.to)) continue;
      CHECK(std::binary_search(together.begin(), together.end(), step.from));
      for (size_t cell = Cell(step.destination_offset); cuts_[cell] < step.destination().end();
           ++cell) {
        auto& values = arrivals[{step.to, cell}];
        values[step.from] = ContentOf(step.from, cell);
        if (step.action == StepAction::kReduce) values[step.to] = ContentOf(step.to, cell);
      }
    }
    for (const auto& [place, by_sender] : arrivals) {
      std::vector<int> values;
      for (const auto& [sender, value] : by_sender) values.push_back(value);
      int& content = content_[static_cast<size_t>(place.first)][place.second];
      content = values.size() == 1 ? values[0] : expressions_.Fold(values);
    }
  }

  std::vector<SharedPiece> Pieces(std::span<const int> together) const {
    std::vector<SharedPiece> pieces;
    size_t turn = 0;
    for (size_t cell = 0; cell + 1 < cuts_.size(); ++cell) {
      std::map<int, std::vector<int>> wanted;  // ranks, by expression
      std::vector<int> workers;
      for (int rank : together) {
        const int content = ContentOf(rank, cell);
        if (content == rank || !live_[static_cast<size_t>(rank)][cell]) continue;
        wanted[content].push_back(rank);
        workers.push_back(rank);
      }
      if (workers.empty()) continue;
      std::vector<SharedPiece::Result> results;
      for (auto& [content, ranks] : wanted) {
        results.push_back({expressions_.Value(content), std::move(ranks)});
      }
      const auto shares = Shares({cuts_[cell], cuts_[cell + 1] - cuts_[cell]}, workers.size());
      for (const ElementRange& share : shares) {
        pieces.push_back({workers[turn++ % workers.size()], share, results});
      }
    }
    return pieces;
  }

 private:
  int ContentOf(int rank, size_t cell) const { return content_[static_cast<size_t>(rank)][cell]; }

  size_t Cell(int64_t cut) const {
    return static_cast<size_t>(std::lower_bound(cuts_.begin(), cuts_.end(), cut) - cuts_.begin());
  }

  void SetLive(int rank, const ElementRange& range, bool live) {
    const size_t end = Cell(range.end());
    for (size_t cell = Cell(range.offset); cell < end; ++cell) {
      live_[static_cast<size_t>(rank)][cell] = live;
    }
  }

  static std::vector<ElementRange> Shares(const ElementRange& range, size_t most) {
    const auto parts = std::clamp<int64_t>(range.count / kGrain, 1, static_cast<int64_t>(most));
    std::vector<ElementRange> shares;
    int64_t begin = range.offset;
    for (const ElementRange& even : EvenBlocks(range.count, static_cast<int>(parts))) {
      int64_t end = range.offset + even.end();
      if (end != range.end()) end -= end % kAlign;
      shares.push_back({begin, end - begin});
      begin = end;
    }
    return shares;
  }

  const Collective& collective_;
  const CollectiveSchedule& schedule_;
  Expressions expressions_;
  std::vector<int64_t> cuts_;
  std::vector<std::vector<int>> content_;  // [rank][cell], expressions
  std::vector<std::vector<bool>> live_;    // [rank][cell]
};

}  // namespace

std::vector<SharedPiece> SharedWork(const Collective& collective,
                                    const CollectiveSchedule& schedule, size_t first, size_t last,
                                    std::span<const int> together) {
  CHECK(collective.kind != CollectiveKind::kAllToAll) << "not in place";
  Fusion fusion(collective, schedule);
  fusion.FindLive(last);
  for (size_t r = first; r < last; ++r) fusion.Run(schedule.rounds[r], together);
  return fusion.Pieces(together);
}

}  // namespace partita

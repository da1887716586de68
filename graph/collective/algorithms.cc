#include "graph/collective/algorithms.h"

#include <bit>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/collective/algorithm_name.h"
#include "graph/collective/direct.h"
#include "graph/collective/halving_doubling.h"
#include "graph/collective/hierarchical.h"
#include "graph/collective/multicolor_tree.h"
#include "graph/collective/pairwise.h"
#include "graph/collective/ring.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

using enum CollectiveKind;

constexpr bool AnyNumber(int ranks) { return ranks >= 1; }

constexpr CollectiveAlgorithm kAlgorithms[] = {
    {"ring",
     {kAllReduce, kReduceScatter, kAllGather},
     AnyNumber,
     StepCount::kRounds,
     WriteRing,
     "Each rank sends to its right neighbour only: the fewest bytes, rounds in proportion to the "
     "ranks."},
    {"halving_doubling",
     {kAllReduce, kReduceScatter, kAllGather},
     AnyNumber,
     StepCount::kRanks,
     WriteHalvingDoubling,
     "Partners at distances that are powers of two: rounds logarithmic in the ranks, the fewest "
     "bytes where their number is a power of two."},
    {"direct",
     {kAllReduce, kReduceScatter, kAllGather, kAllToAll},
     AnyNumber,
     StepCount::kAllPairs,
     WriteDirect,
     "Everybody sends to everybody who needs it in one round: for small messages."},
    {"scatter_gather",
     {kAllReduce},
     AnyNumber,
     StepCount::kAllPairs,
     WriteScatterGather,
     "Direct reduce-scatter, then direct all-gather: two rounds with the bytes of ring."},
    {"pairwise",
     {kAllToAll},
     AnyNumber,
     StepCount::kRounds,
     WritePairwise,
     "In round t rank r sends to rank r+t: one message in and one out per rank and round."},
    {"multicolor_tree",
     {kAllReduce},
     AnyNumber,
     StepCount::kRanks,
     WriteMulticolorTree,
     "Several trees with different inner nodes, each for its share of the elements, optionally "
     "pipelined."},
    {"hierarchical",
     {kAllReduce},
     AnyNumber,
     StepCount::kRounds,
     WriteHierarchical,
     "Reduces within each node, goes round a ring between nodes for every share, spreads within "
     "each node."},
};

class Counter : public ScheduleWriter {
 public:
  explicit Counter(int ranks) { totals.received.resize(static_cast<size_t>(ranks)); }

  ScheduleTotals totals;

 private:
  void OnStep(const CollectiveStep& step) override {
    if (step.from != step.to) totals.received[static_cast<size_t>(step.to)] += step.count;
  }
  void OnRound(bool) override { ++totals.rounds; }
};

std::string NamesFor(CollectiveKind kind) {
  std::string names;
  for (const CollectiveAlgorithm& row : kAlgorithms) {
    if (row.kinds.contains(kind)) absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  }
  return names;
}

// Several nodes, one of which has several ranks.
bool GoesByNodes(std::span<const int> nodes) {
  const size_t count = CountNodes(nodes);
  return count > 1 && count < nodes.size();
}

}  // namespace

absl::Span<const CollectiveAlgorithm> CollectiveAlgorithms() { return kAlgorithms; }

const CollectiveAlgorithm* FindCollectiveAlgorithm(absl::string_view name) {
  const absl::StatusOr<NamedAlgorithm> named = ParseAlgorithm(name, {});
  if (!named.ok()) return nullptr;
  for (const CollectiveAlgorithm& row : kAlgorithms) {
    if (row.name == named->row) return &row;
  }
  return nullptr;
}

namespace {

// A row that does a collective, and its options.
struct CheckedAlgorithm {
  const CollectiveAlgorithm* row = nullptr;
  ScheduleOptions options;
};

absl::StatusOr<CheckedAlgorithm> CheckedFor(absl::string_view algorithm,
                                            const Collective& collective,
                                            const ScheduleOptions& options) {
  RETURN_IF_ERROR(Validate(collective));
  ASSIGN_OR_RETURN(const NamedAlgorithm named, ParseAlgorithm(algorithm, options));
  const CollectiveAlgorithm* row = FindCollectiveAlgorithm(named.row);
  if (row == nullptr) {
    return absl::NotFoundError(absl::StrCat("no collective algorithm \"", algorithm, "\"; for ",
                                            Name(collective.kind), " there are ",
                                            NamesFor(collective.kind)));
  }
  if (!row->kinds.contains(collective.kind) || !row->applicable(collective.ranks)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "collective algorithm ", algorithm, " does not do ", Name(collective.kind), " between ",
        collective.ranks, " ranks; for this kind there are ", NamesFor(collective.kind)));
  }
  const ScheduleOptions& o = named.options;
  if (o.colors < 1 || o.segments < 0) {
    return absl::InvalidArgumentError(absl::StrCat("colors ", o.colors, ", segments ", o.segments,
                                                   "; wanted at least 1 and at least 0"));
  }
  if (!o.nodes.empty() && o.nodes.size() != static_cast<size_t>(collective.ranks)) {
    return absl::InvalidArgumentError(absl::StrCat("the nodes of ", o.nodes.size(),
                                                   " ranks are given; wanted ", collective.ranks));
  }
  return CheckedAlgorithm{row, o};
}

}  // namespace

absl::Status CheckDoes(absl::string_view algorithm, const Collective& collective) {
  return CheckedFor(algorithm, collective, {}).status();
}

absl::Status WriteSchedule(absl::string_view algorithm, const Collective& collective,
                           ScheduleWriter& out, const ScheduleOptions& options) {
  ASSIGN_OR_RETURN(const CheckedAlgorithm checked, CheckedFor(algorithm, collective, options));
  checked.row->write(collective, checked.options, out);
  return absl::OkStatus();
}

absl::StatusOr<CollectiveSchedule> BuildSchedule(absl::string_view algorithm,
                                                 const Collective& collective,
                                                 const ScheduleOptions& options) {
  ScheduleBuilder builder(collective.ranks);
  RETURN_IF_ERROR(WriteSchedule(algorithm, collective, builder, options));
  return std::move(builder).Finish();
}

absl::StatusOr<ScheduleTotals> TotalsOf(absl::string_view algorithm, const Collective& collective) {
  Counter counter(collective.ranks);
  RETURN_IF_ERROR(WriteSchedule(algorithm, collective, counter));
  return std::move(counter.totals);
}

std::string ForNodes(absl::string_view algorithm, std::span<const int> nodes) {
  if (algorithm != "hierarchical" || CountNodes(nodes) < 2) return std::string(algorithm);
  return absl::StrCat(algorithm, "(nodes=", NodesText(nodes), ")");
}

std::string DefaultAlgorithm(CollectiveKind kind, int ranks, int64_t bytes,
                             std::span<const int> nodes) {
  constexpr int64_t kSmall = 64 << 10;
  constexpr int64_t kMedium = 1 << 20;
  switch (kind) {
    case kAllReduce:
      if (bytes <= kSmall) return ranks <= 2 ? "direct" : "scatter_gather";
      if (GoesByNodes(nodes)) return ForNodes("hierarchical", nodes);
      if (bytes <= kMedium && std::has_single_bit(static_cast<unsigned>(ranks))) {
        return "halving_doubling";
      }
      return "ring";
    case kReduceScatter:
    case kAllGather:
      return bytes <= kSmall ? "direct" : "ring";
    case kAllToAll:
      return bytes <= kSmall ? "direct" : "pairwise";
  }
  return "direct";
}

}  // namespace partita

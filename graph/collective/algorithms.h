#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/collective/schedule.h"

namespace partita {

// The set of kinds that an algorithm does.
class KindSet {
 public:
  constexpr KindSet(std::initializer_list<CollectiveKind> kinds) {
    for (CollectiveKind kind : kinds) bits_ |= 1u << static_cast<unsigned>(kind);
  }
  constexpr bool contains(CollectiveKind kind) const {
    return (bits_ >> static_cast<unsigned>(kind) & 1u) != 0;
  }

 private:
  unsigned bits_ = 0;
};

// Growth of the number of steps of a schedule.
enum class StepCount {
  kRanks,     // ranks, times their logarithm or pieces
  kRounds,    // ranks squared: as many rounds as ranks
  kAllPairs,  // ranks squared: every pair in one round
};

struct CollectiveAlgorithm {
  absl::string_view name;
  KindSet kinds;
  bool (*applicable)(int ranks);
  StepCount steps;
  // Precondition: the collective is valid and of one of `kinds`, applicable(ranks), options in
  // range.
  void (*write)(const Collective&, const ScheduleOptions&, ScheduleWriter&);
  absl::string_view description;
};

// THE table of collective algorithms: a new one is a file of its own and one row.
absl::Span<const CollectiveAlgorithm> CollectiveAlgorithms();

// Wherever an algorithm is named, it is a row's name, or that with settings of ScheduleOptions:
// "ring", "multicolor_tree(colors=4,segments=8)", "hierarchical(nodes=0*4+1*4)": ranks 0 to 3 in
// node 0, then four in node 1. So a schedule is known by collective and name alone.

// The row that is named, or null, also where settings are not valid.
const CollectiveAlgorithm* FindCollectiveAlgorithm(absl::string_view name);

// Whether the algorithm that is named does this collective: errors of BuildSchedule.
absl::Status CheckDoes(absl::string_view algorithm, const Collective& collective);

// The schedule of `collective` by the algorithm that is named; settings in the name replace
// `options`. NotFound if there is none (the message lists those there are); InvalidArgument if the
// collective or an option is not valid or the algorithm does not do this kind at this number of
// ranks.
absl::StatusOr<CollectiveSchedule> BuildSchedule(absl::string_view algorithm,
                                                 const Collective& collective,
                                                 const ScheduleOptions& options = {});

// The same step by step, and what it adds up to, without keeping it.
absl::Status WriteSchedule(absl::string_view algorithm, const Collective& collective,
                           ScheduleWriter& out, const ScheduleOptions& options = {});
absl::StatusOr<ScheduleTotals> TotalsOf(absl::string_view algorithm, const Collective& collective);

// The algorithm's name for a group whose ranks are in these nodes: with them, if it is the
// hierarchical one without settings and they are several.
std::string ForNodes(absl::string_view algorithm, std::span<const int> nodes);

// The algorithm to use where none was chosen; `bytes` is the buffer of one rank (for all-to-all
// what one rank sends), `nodes` has the node of each rank, or is empty. Small messages take the
// fewest rounds, larger ones the fewest bytes at a time, and between nodes with several ranks in
// one of them the fewest bytes between nodes; none of the choices receives more bytes, over all
// ranks, than ring does.
std::string DefaultAlgorithm(CollectiveKind kind, int ranks, int64_t bytes,
                             std::span<const int> nodes = {});

}  // namespace partita

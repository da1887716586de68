#include "runtime/comm/collective_phases.h"

#include <algorithm>
#include <utility>

#include "graph/support/status_macros.h"
#include "runtime/comm/host_window.h"

namespace partita {
namespace {

class Phases {
 public:
  Phases(const CollectiveTask& task, int rank, std::span<const int> sharing)
      : task_(task), rank_(rank) {
    for (size_t r = 0; r < task.group.size(); ++r) {
      const bool here =
          std::find(sharing.begin(), sharing.end(), task.group[r].value()) != sharing.end();
      here_.push_back(here);
      if (here) members_.push_back(static_cast<int>(r));
    }
  }

  std::vector<CollectivePhase> Of(const CollectiveSchedule& schedule) const {
    std::vector<CollectivePhase> phases;
    const std::vector<RankRound> own = RoundsOfRank(schedule, rank_);
    for (size_t first = 0; first < own.size();) {
      const bool shared = IsShared(schedule.rounds[first]);
      size_t last = first + 1;
      while (last < own.size() && IsShared(schedule.rounds[last]) == shared) ++last;
      if (shared && std::any_of(&schedule.rounds[first], &schedule.rounds[first] + (last - first),
                                [this](const CollectiveRound& round) { return Concerns(round); })) {
        phases.push_back(Shared(schedule, own, first, last));
      } else if (!shared) {
        phases.push_back(MessagePhase{{own.begin() + static_cast<std::ptrdiff_t>(first),
                                       own.begin() + static_cast<std::ptrdiff_t>(last)}});
      }
      first = last;
    }
    return phases;
  }

 private:
  bool Here(int rank) const { return here_[static_cast<size_t>(rank)]; }

  bool Concerns(const CollectiveRound& round) const {
    return std::any_of(round.steps.begin(), round.steps.end(),
                       [this](const CollectiveStep& step) { return Here(step.to); });
  }

  // Whether the round's messages at this host's members, if there are any, stay among them.
  bool IsShared(const CollectiveRound& round) const {
    if (members_.size() < 2 || task_.slices() > HostWindow::kMostPlaces) return false;
    return std::all_of(round.steps.begin(), round.steps.end(), [&](const CollectiveStep& step) {
      return Here(step.from) == Here(step.to);
    });
  }

  SharedPhase Shared(const CollectiveSchedule& schedule, const std::vector<RankRound>& own,
                     size_t first, size_t last) const {
    const TypedReduction how{task_.dtype, task_.collective.reduction};
    SharedPhase phase{members_, {}, {}, {}};
    for (int member : members_) {
      phase.peers.push_back(task_.group[static_cast<size_t>(member)].value());
    }
    if (task_.collective.kind == CollectiveKind::kAllToAll) {
      for (size_t r = first; r < last; ++r) {
        phase.steps.insert(phase.steps.end(), own[r].receives.begin(), own[r].receives.end());
      }
      return phase;
    }
    std::vector<SharedPiece> pieces = SharedWork(task_.collective, schedule, first, last, members_);
    std::erase_if(pieces, [&](const SharedPiece& piece) { return piece.worker != rank_; });
    // Steps do not cross from slice to slice, and so do pieces.
    const std::vector<int64_t> starts = SliceStarts(task_);
    std::vector<std::vector<SharedPiece>> by_slice(starts.size());
    for (SharedPiece& piece : pieces) {
      const auto next = std::upper_bound(starts.begin(), starts.end(), piece.range.offset);
      const auto slice = static_cast<size_t>(next - starts.begin()) - 1;
      piece.range.offset -= starts[slice];
      by_slice[slice].push_back(std::move(piece));
    }
    for (auto& own : by_slice) phase.pieces.emplace_back(std::move(own), how);
    return phase;
  }

  const CollectiveTask& task_;
  const int rank_;
  std::vector<bool> here_;    // by rank of the group
  std::vector<int> members_;  // of the group, on this host
};

}  // namespace

absl::StatusOr<std::vector<CollectivePhase>> PhasesOf(const CollectiveTask& task, int rank,
                                                      std::span<const int> sharing) {
  ASSIGN_OR_RETURN(const CollectiveSchedule schedule, ScheduleOf(task));
  return Phases(task, rank, sharing).Of(schedule);
}

}  // namespace partita

#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "graph/collective/schedule.h"
#include "graph/support/check.h"

// The meaning of a schedule, as code: one process, one vector per rank, round after round.
// Communicators are compared with it bit for bit. T needs copying, + (for kSum) and < (for kMax).

namespace partita {

// The elementwise operation; `earlier` is of the lower rank.
template <class T>
T CombineElements(Reduction reduction, const T& earlier, const T& later) {
  if (reduction == Reduction::kSum) return earlier + later;
  return earlier < later ? later : earlier;
}

namespace internal {

// Elements that a round delivers to one rank, in the order of RankRound::receives.
template <class T>
using Arrivals = std::vector<std::vector<T>>;

// Folds the arrivals of `receives`, all of one range, with the rank's own value in ascending order
// of ranks.
template <class T>
void FoldRange(std::span<const CollectiveStep> receives, std::span<const std::vector<T>> arrivals,
               Reduction reduction, std::vector<T>& buffer) {
  const CollectiveStep& range = receives[0];
  for (int64_t i = 0; i < range.count; ++i) {
    T& own = buffer[range.destination_offset + i];
    size_t next = 0;
    bool own_used = range.from > range.to;
    T sum = own_used ? own : arrivals[next++][i];
    for (; next < receives.size(); ++next) {
      if (!own_used && receives[next].from > range.to) {
        sum = CombineElements(reduction, sum, own);
        own_used = true;
      }
      sum = CombineElements(reduction, sum, arrivals[next][i]);
    }
    own = own_used ? sum : CombineElements(reduction, sum, own);
  }
}

template <class T>
void Deliver(const RankRound& round, const Arrivals<T>& arrivals, Reduction reduction,
             std::vector<T>& buffer) {
  for (size_t first = 0; first < round.receives.size();) {
    const CollectiveStep& step = round.receives[first];
    size_t last = first + 1;
    if (step.action == StepAction::kCopy) {
      std::copy(arrivals[first].begin(), arrivals[first].end(),
                buffer.begin() + step.destination_offset);
    } else {
      while (last < round.receives.size() &&
             round.receives[last].destination() == step.destination()) {
        ++last;
      }
      FoldRange(std::span(round.receives).subspan(first, last - first),
                std::span(arrivals).subspan(first, last - first), reduction, buffer);
    }
    first = last;
  }
}

}  // namespace internal

// Reads from `send`, writes into `receive`; they may be the same object, and are for collectives in
// place. One vector per rank, of SendElements and ReceiveElements elements.
template <class T>
void RunSchedule(const CollectiveSchedule& schedule, Reduction reduction,
                 const std::vector<std::vector<T>>& send, std::vector<std::vector<T>>& receive) {
  CHECK_EQ(static_cast<int>(send.size()), schedule.ranks);
  CHECK_EQ(static_cast<int>(receive.size()), schedule.ranks);
  std::vector<std::vector<RankRound>> ranks;
  for (int rank = 0; rank < schedule.ranks; ++rank) ranks.push_back(RoundsOfRank(schedule, rank));
  for (size_t r = 0; r < schedule.rounds.size(); ++r) {
    std::vector<internal::Arrivals<T>> arrivals(schedule.ranks);
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      for (const CollectiveStep& step : ranks[rank][r].receives) {
        const auto begin = send[step.from].begin() + step.source_offset;
        arrivals[rank].emplace_back(begin, begin + step.count);
      }
    }
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      internal::Deliver(ranks[rank][r], arrivals[rank], reduction, receive[rank]);
    }
  }
}

template <class T>
void RunInPlace(const CollectiveSchedule& schedule, Reduction reduction,
                std::vector<std::vector<T>>& buffers) {
  RunSchedule(schedule, reduction, buffers, buffers);
}

}  // namespace partita

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/profile.h"

namespace partita {

// A plan to choose from.
struct Contender {
  std::string name;
  bool is_expert = false;
  Nanos predicted = {};  // 0: unknown
};

// Step times of contenders, which are numbered from 0.
class StepTimer {
 public:
  virtual ~StepTimer() = default;
  // Takes more steps of all that are not dropped, in turn: as many of each, as long as there is time.
  virtual absl::Status Round() = 0;
  virtual std::span<const int64_t> TimesOf(size_t contender) const = 0;  // ns
  // The median of its steps in each round, in ns.
  virtual std::span<const int64_t> RoundsOf(size_t contender) const = 0;
  // Takes no more steps of this one.
  virtual void Drop(size_t contender) = 0;
};

struct MeasuredChoice {
  size_t chosen = 0;
  // Whether the medians of the best and of the best of the other kind (expert, searched) are known
  // to differ.
  bool is_sure = false;
  // The contender that had the smallest median, and gave way to an expert that it did not beat
  // beyond the spread.
  std::optional<size_t> gave_way;
  std::vector<std::optional<Timing>> timings;  // by contender; nullopt: no step in time
};

// Chooses by successive halving: after a number of steps the slower half is dropped and the rest
// makes twice as many, but the best expert and the best other stay. Those two go on until rounds tell
// them apart, or kMostSteps. What is not faster than the best expert beyond the spread gives way to it.
//
// Steps of one round are much alike, and differ more from those of another, as what else the machine
// does changes meanwhile; that meets all plans of a round. So a plan is faster than another beyond the
// spread where that is certain of the ratio of their medians in one round (RatioOf), over kFewestRounds.
//
// `part_of_time`: part of the time that is over; from 1 on everything ends. The levels have equal
// parts of what is left after the first round, and end then whatever steps have been made. Medians of
// a few steps that differ much are compared together with what was predicted, each by how well it is
// known. The first contender is chosen where nothing was measured.
absl::StatusOr<MeasuredChoice> ChooseByMeasurement(std::span<const Contender> contenders,
                                                   const std::function<double()>& part_of_time,
                                                   StepTimer& timer);

// Steps of the first level, and of the two that are left.
inline constexpr size_t kFirstSteps = 10;
inline constexpr size_t kMostSteps = 100;
// Rounds without which no order is certain.
inline constexpr size_t kFewestRounds = 8;

}  // namespace partita

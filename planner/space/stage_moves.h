#pragma once

#include <random>
#include <span>
#include <vector>

#include "graph/parallel/decision.h"
#include "planner/space/search_space.h"

// Stages, and moves (planner/space/moves.h) on them.

namespace partita {

// On few devices any configuration is one of few, and moves on single operators do.
inline constexpr int kMostWithoutStages = 4;

// A run of the space's operators by layer, [begin, end), whose parts are on the same devices, one
// part on each; these in ascending order. An operator with several parts on a device is alone, and
// its devices are none.
struct StrategyStage {
  size_t begin = 0, end = 0;
  std::vector<DeviceId> devices;
};
std::vector<StrategyStage> StagesOf(const SearchSpace& space, const Strategy& strategy);
// Whether a stage and the one after it have no device in common: both may work at the same time.
bool HasStagesApart(const SearchSpace& space, const Strategy& strategy);

// Decisions that cut the stage in front of the operator `cut`, by layer, or of one near it where that
// is inside a recurrent layer: as SplitStage, each operator by the first of its degrees that fits.
std::vector<Decision> SplitStageAt(const SearchSpace& space, const Strategy& strategy,
                                   const StrategyStage& stage, size_t cut);
// Decisions that have the first of two stages, one after the other, end at `cut`, or near it where that
// is inside a recurrent layer: what goes from one to the other keeps its degrees. None where these
// have devices in common, or are not as many.
std::vector<Decision> ShiftStages(const SearchSpace& space, const Strategy& strategy,
                                  std::span<const StrategyStage, 2> stages, size_t cut);

// Cuts a stage in two: what is before the cut stays on the first half of its devices, the rest goes
// on the other half. Empty where no operator of the stage drawn can do with half of the devices.
std::vector<Decision> SplitStage(const SearchSpace& space, const Strategy& strategy,
                                 std::mt19937_64& random);

// Puts a stage and the one after it on the devices of both. Empty unless these are apart and as many.
std::vector<Decision> JoinStages(const SearchSpace& space, const Strategy& strategy,
                                 std::mt19937_64& random);

}  // namespace partita

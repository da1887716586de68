#pragma once

#include <vector>

#include "planner/space/search_space.h"

namespace partita {

// Configurations of an operator to try in place of the one that it has under the strategy, each
// once, without that one. All fit the operator.

// Splits that cost little communication: as the operators around it are split, whose makers of its
// operands are followed block by block, too; on their devices, or its own, along one loop, or as
// copies; and a few of those that operators like it have.
std::vector<ParallelConfig> NeighbourSplits(const SearchSpace& space, const Strategy& strategy,
                                            OpId op);
// Its parts on the same devices, a factor up to 4 of one degree moved to another one, copies included.
std::vector<ParallelConfig> TradedSplits(const SearchSpace& space, const Strategy& strategy,
                                         OpId op);
// One degree, or its copies, doubled on twice as many neighbouring devices, which begin at a multiple of
// their number; or halved on the first or second half of its devices. None where its devices are not
// neighbours.
std::vector<ParallelConfig> ResizedSplits(const SearchSpace& space, const Strategy& strategy,
                                          OpId op);
// Its split on other devices, each as many places on, round the machine: as many as it has devices,
// twice as many, and so on, or as many back. None where it has them all.
std::vector<ParallelConfig> ShiftedSplits(const SearchSpace& space, const Strategy& strategy,
                                          OpId op);

// Anchors that read what the operator makes, each once.
std::vector<OpId> AnchorsBehind(const Graph& graph, OpId op);
// The operators behind this one up to the next ones that multiply by weights, a few at most: they are
// mostly split as it is.
std::vector<OpId> ChainBehind(const Graph& graph, OpId op);
// The operators that multiply by weights what this one or one of its chain makes, each once.
struct MakerAndReader {
  OpId maker, reader;
};
std::vector<MakerAndReader> ReadersBehind(const Graph& graph, OpId op);

// Layouts of a weight: the default, and even shards over all devices of the update layout (ZeRO-2) or
// of both (ZeRO-3).
inline constexpr size_t kEvenPlacements = 3;
WeightPlacement EvenPlacement(const SearchSpace& space, int32_t weight, size_t kind);

}  // namespace partita

#pragma once

#include <optional>
#include <random>
#include <span>
#include <vector>

#include "graph/parallel/decision.h"
#include "planner/space/search_space.h"

namespace partita {

// The same split on other devices: all so many on, round the machine of `devices` devices.
ParallelConfig MovedOn(ParallelConfig config, int32_t by, int32_t devices);

// A kind of step from a strategy to a neighbour.
struct SearchMove {
  const char* name;
  int share;  // how often it is drawn among those that can be: in proportion
  // Whether the space has subjects for it.
  bool (*applies)(const SearchSpace&);
  // New decisions, none on a subject that the space leaves out; perhaps those there are already.
  std::vector<Decision> (*propose)(const SearchSpace&, const Strategy&, std::mt19937_64&);
  const char* description;
};

// THE table of moves.
std::span<const SearchMove> SearchMoves();

// A step from a strategy: decisions to be made together, and the move that they come from.
struct Proposal {
  std::vector<Decision> decisions;
  const SearchMove* move = nullptr;
};
// Only decisions that change the strategy are in it; nullopt after kMostDraws without any.
// Precondition: the space has a subject.
inline constexpr int kMostDraws = 1000;
std::optional<Proposal> Propose(const SearchSpace& space, const Strategy& strategy,
                                std::mt19937_64& random);

// A configuration under which `anchor` reads, element by element, what `from` leaves on each device
// under `model`: the same split of each dimension of the result, on the same devices. nullopt if
// there is none.
std::optional<ParallelConfig> WithSameResultSplit(const SearchSpace& space, OpId from,
                                                  const ParallelConfig& model, OpId anchor);

// A configuration under which every part of `anchor` finds its block of one operand where the
// operand's producer left it: where that splits what `anchor` sums over, so does this. nullopt if
// there is none, or if `from` does not produce an operand.
std::optional<ParallelConfig> WithProducersBlocks(const SearchSpace& space, OpId from,
                                                  const ParallelConfig& model, OpId anchor);

}  // namespace partita
